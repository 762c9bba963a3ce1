import { codedError } from "iterate/lib";
import { expect, test } from "vitest";
import { Archives, type ArchiveClient } from "./archive-ports.js";

/** The service as far as a call of it goes: it takes what is sent, and ends with its call. */
function archives() {
  const ended = Promise.withResolvers<never>();
  ended.promise.catch(() => undefined);
  const cancel = (): void => ended.reject(codedError("CANCELLED", "the call was cancelled"));
  const stageImport = ({ signal }: { signal: AbortSignal }) => {
    signal.addEventListener("abort", cancel);
    return { send: () => Promise.resolve(), end: () => undefined, cancel, response: ended.promise };
  };
  return new Archives({ stageImport } as unknown as ArchiveClient, () => Promise.resolve());
}
const request = { importId: "1".repeat(32), owner: "prj_1", replace: false };

test("an import that is given up ends at once, also while its client sends nothing", async () => {
  const leaving = new AbortController();
  const asked = Promise.withResolvers<void>();
  const silent = async function* (): AsyncGenerator<Uint8Array> {
    asked.resolve();
    await new Promise(() => undefined);
    yield Buffer.alloc(0);
  };
  const staged = archives().stage(request, silent(), leaving.signal);
  await asked.promise;
  leaving.abort(codedError("CANCELLED", "taken over"));
  await expect(staged).rejects.toMatchObject({ code: "CANCELLED" });
}, 2_000);

test("what breaks the archive off is the reason", async () => {
  const broken = async function* (): AsyncGenerator<Uint8Array> {
    yield Buffer.from("a line");
    throw codedError("INVALID_INPUT", "the file cannot be read");
  };
  const staged = archives().stage(request, broken(), new AbortController().signal);
  await expect(staged).rejects.toMatchObject({ code: "INVALID_INPUT" });
});
