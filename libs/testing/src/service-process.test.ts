import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { ServiceProcess } from "./service-process.js";

const script = fileURLToPath(new URL("./service-process.fixture.ts", import.meta.url));

test("one that serves says its ports, and is told what it is told alone", async () => {
  const running = await ServiceProcess.start(script, { GREETING: "hello" }, { args: ["there"] });
  expect(running.ports).toEqual({ grpc: 1 });
  expect(running.lines[0]).toBe("hello there GREETING,PATH");
  expect(await running.end()).toEqual({ code: null, signal: "SIGTERM" });
  expect(running.isRunning).toBe(false);
});

test("one that ends before it serves is an error that holds what it wrote", async () => {
  await expect(ServiceProcess.start(script, { GREETING: "hello", FAIL: "1" })).rejects.toThrow(/did not come to serve:\nhello/);
});

test("a command's end is told", async () => {
  expect(await ServiceProcess.spawn(script, { FAIL: "1" }).exited).toEqual({ code: 3, signal: null });
});
