import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { eventually } from "@iterate-platform/testing";
import { TiedChild } from "@iterate-platform/testing/child";

/** Gone, or dead and waiting for whoever adopted it to reap it. */
function hasEnded(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]!.startsWith("Z");
  } catch {
    return true;
  }
}

test("an isolate dies with a supervisor that is killed, even while its code loops", async () => {
  const script = fileURLToPath(new URL("./orphan.fixture.ts", import.meta.url));
  const supervisor = new TiedChild(process.execPath, ["--conditions=iterate-source", "--import", "tsx", script]);
  const pid = Number(await eventually(() => /^\d+$/m.exec(supervisor.lastLines())?.[0], { timeoutMs: 20_000 }));
  expect(hasEnded(pid)).toBe(false);
  supervisor.signal("SIGKILL");
  await supervisor.exited;
  await eventually(() => hasEnded(pid));
});
