import { afterEach, expect, test } from "vitest";
import type { Isolate } from "./isolate.js";
import { bundleOf, processorBundle, run, startIsolate } from "./fixture.js";

const started: Isolate[] = [];
async function isolateOf(...args: Parameters<typeof startIsolate>): Promise<Isolate> {
  const isolate = await startIsolate(...args);
  started.push(isolate);
  return isolate;
}
afterEach(async () => {
  await Promise.all(started.splice(0).map((isolate) => isolate.end()));
});

test("a batch's frames arrive in order, with its records and the replies to its host calls", async () => {
  const isolate = await isolateOf(
    processorBundle(`
      console.log("got %s", input.word, { deep: [1] });
      console.error("bad");
      yield { kind: "checkpoint", word: input.word };
      yield { kind: "settled", reply: await itx().hostCall("append", [{ type: "x" }], "/a/b") };`),
  );
  const outcome = await run(isolate, { input: { word: "hi" } });
  expect(outcome.frames).toEqual([{ kind: "checkpoint", word: "hi" }, { kind: "settled", reply: [{ type: "x" }] }]);
  expect(outcome.logs.map(({ level, message }) => [level, message])).toEqual([["info", "got hi { deep: [ 1 ] }"], ["error", "bad"]]);
  expect(outcome.hostCalls).toMatchObject([{ callId: 1, method: "append", path: "/a/b" }]);
});

test("a loop is ended as ISOLATE_CPU", async () => {
  const isolate = await isolateOf(processorBundle(`for(;;);`), { loopMs: 500 });
  const outcome = await run(isolate, { limits: { loopMs: 500 } });
  expect(outcome.error).toMatchObject({ code: "ISOLATE_CPU" });
  expect(isolate.isAlive).toBe(false);
});
