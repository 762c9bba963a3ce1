import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { TiedChild } from "./child.js";
import { eventually } from "./eventually.js";
import { hasPrograms } from "./program.js";

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

test("its last lines are kept and its end is told", async () => {
  const child = new TiedChild("sh", ["-c", "for n in $(seq 1 50); do echo line $n; done; echo oops >&2; exit 3"]);
  expect(await child.exited).toEqual({ code: 3, signal: null });
  expect(child.lastLines().split("\n")).toHaveLength(40);
  expect(child.lastLines()).toContain("oops");
  expect(child.isRunning).toBe(false);
});

test("a program that does not exist is told as an error or as a failed end, never as silence", async () => {
  const outcome = await new TiedChild("/no/such/program", []).exited.then(
    ({ code }) => code,
    (error: NodeJS.ErrnoException) => error.code,
  );
  expect(outcome === "ENOENT" || (typeof outcome === "number" && outcome !== 0)).toBe(true);
});

test("one that ignores a gentle signal is ended by the next rung", async () => {
  const child = new TiedChild("sh", ["-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"]);
  await eventually(() => child.lastLines() === "up");
  const start = performance.now();
  const exit = await child.stop([
    { signal: "SIGTERM", waitMs: 150 },
    { signal: "SIGKILL", waitMs: 5_000 },
  ]);
  expect(exit.signal).toBe("SIGKILL");
  expect(performance.now() - start).toBeGreaterThanOrEqual(150);
});

test.skipIf(!hasPrograms("setpriv"))("a child ends with its parent, even when that is killed", async () => {
  const program = `
    import { TiedChild } from ${JSON.stringify(new URL("./child.ts", import.meta.url).href)};
    console.log(new TiedChild("sleep", ["60"]).pid);
    setInterval(() => {}, 1000);`;
  const parent = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "--eval", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(createInterface({ input: parent.stdout }), "line")) as [string];
  const pid = Number(line);
  expect(isAlive(pid)).toBe(true);
  parent.kill("SIGKILL");
  await eventually(() => !isAlive(pid));
});
