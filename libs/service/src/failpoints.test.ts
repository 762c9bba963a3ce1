import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { Failpoints } from "./failpoints.js";

const module = fileURLToPath(new URL("./failpoints.ts", import.meta.url));

async function runWith(failpoints: string): Promise<{ signal: string | null; code: number | null; output: string }> {
  const script = `import { failpoint } from ${JSON.stringify(module)};
    for (let i = 1; i <= 3; i++) { await failpoint("loop.step"); process.stdout.write(String(i)); }`;
  const child = spawn(process.execPath, ["--conditions=iterate-source", "--import", "tsx", "--input-type=module", "-e", script], {
    env: { ...process.env, FAILPOINTS: failpoints },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  const [code, signal] = (await once(child, "close")) as [number | null, string | null];
  return { code, signal, output };
}

describe("failpoints", () => {
  test("do nothing unless armed", async () => {
    expect(await runWith("")).toEqual({ code: 0, signal: null, output: "123" });
    expect(await runWith("another.point=kill")).toEqual({ code: 0, signal: null, output: "123" });
  });

  test("kill the process at the n-th pass and let nothing after the point run", async () => {
    expect(await runWith("loop.step=kill@2")).toEqual({ code: null, signal: "SIGKILL", output: "1" });
  });

  test("throw UNAVAILABLE for as many passes as asked", () => {
    const points = new Failpoints();
    points.set("a=error*2, b=error@2*1");
    for (let i = 0; i < 2; i += 1) expect(() => points.pass("a")).toThrowError(expect.objectContaining({ code: "UNAVAILABLE" }));
    expect(points.pass("a")).toBeUndefined();
    expect(points.pass("b")).toBeUndefined();
    expect(() => points.pass("b")).toThrow("failpoint b is armed");
    expect(points.pass("b")).toBeUndefined();
  });

  test("hang without settling", async () => {
    const points = new Failpoints();
    points.set("a=hang");
    expect(await Promise.race([points.pass("a"), new Promise((resolve) => setImmediate(resolve, "still waiting"))])).toBe(
      "still waiting",
    );
  });

  test("can be held by a test inside the process and let go", async () => {
    const points = new Failpoints();
    const passed: string[] = [];
    const release = points.on("a", () => void passed.push("a"));
    await points.pass("a");
    release();
    await points.pass("a");
    expect(passed).toEqual(["a"]);
  });

  test.each(["a", "a=explode", "a=kill*", "=kill", "a=kill@x"])("refuse the entry %j by name", (text) => {
    expect(() => new Failpoints().set(text)).toThrowError(
      expect.objectContaining({ code: "INVALID_INPUT", message: expect.stringContaining(text) }),
    );
  });
});
