import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { eventually } from "@iterate-platform/testing";

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
  const supervisor = spawn(process.execPath, ["--conditions=iterate-source", "--import", "tsx", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(supervisor.stdout, "data")) as [Buffer];
  const pid = Number(line.toString());
  expect(hasEnded(pid)).toBe(false);
  supervisor.kill("SIGKILL");
  await once(supervisor, "exit");
  await eventually(() => hasEnded(pid));
});
