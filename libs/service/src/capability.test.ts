/** Calls below a root, in one process: what steps lead to, what an answer is on the wire, and that nothing runs unless all of it fits. */
import { StreamKind } from "@iterate-platform/proto/iterate/type/v1/invocation";
import { codedError } from "iterate/lib";
import type { Step } from "iterate/expression";
import { beforeEach, describe, expect, test } from "vitest";
import { evaluate, type Answer } from "./capability-calls.js";
import {
  group,
  handleMethod,
  invocationLimits,
  method,
  type ArgumentsSchema,
  type BuiltinRoot,
  type CapabilityCall,
} from "./capability.js";
import { readResult, resultParts } from "./invocation-result.js";

const called: unknown[] = [];
beforeEach(() => void called.splice(0));

/** Lists of exactly this length. */
const list = (length: number): ArgumentsSchema => ({
  safeParse: (value) =>
    Array.isArray(value) && value.length === length
      ? { success: true, data: value as unknown[] }
      : { success: false, error: { issues: [{ path: [0, "name"], message: "is wrong" }] } },
});
const words = { signature: "() => void", description: "Does.", example: "itx.tool.do()", effect: "write" } as const;

const tool: BuiltinRoot<CapabilityCall> = {
  name: "tool",
  isContextRoot: true,
  description: "A tool.",
  instructions: "Use it.",
  types: "",
  member: group<CapabilityCall>({
    do: method(list(0), words, () => {
      called.push("do");
      return { a: { b: [1, 2] }, none: null };
    }),
    nothing: method(list(0), words, () => undefined),
    fails: method(list(0), words, () => Promise.reject(codedError("FORBIDDEN", "no"))),
    stream: method(list(0), words, async function* () {
      yield 1;
      yield 2;
    }),
    deep: group<CapabilityCall>({ one: method(list(1), words, (_call: CapabilityCall, ...args) => args[0]) }),
    open: handleMethod(
      list(1),
      words,
      (_call: CapabilityCall, ...args) => args[0],
      (ofHandle) => ({
        name: ofHandle(list(0), words, (_call, handle) => ({ handle })),
      }),
    ),
  }),
};

const call = {} as CapabilityCall;
const answer = (...steps: Step[]): Promise<Answer> => evaluate(tool, ["tool", ...steps], call);
const value = async (...steps: Step[]): Promise<unknown> => {
  const got = await answer(...steps);
  return got.kind === "value" ? got.value : got;
};
const notAMethod = (message: RegExp): unknown =>
  expect.objectContaining({ code: "NOT_A_METHOD", message: expect.stringMatching(message) as unknown });

describe("steps", () => {
  test("lead through names to calls, and on through the own properties of an answer", async () => {
    expect(await value(["do"])).toEqual({ a: { b: [1, 2] }, none: null });
    expect(await value(["do"], "a", "b")).toEqual([1, 2]);
    expect(await value(["do"], "a", "b", "length")).toBe(2);
    expect(await value(["do"], "toString")).toBeUndefined();
    expect(await value("deep", ["one", { x: 1 }], "x")).toBe(1);
    expect(await value("deep", "one", ["", 7])).toBe(7);
    expect(await value(["open", "h"], ["name"], "handle")).toBe("h");
    expect(await value(["nothing"])).toBeUndefined();
  });

  test.each<[string, Step[], RegExp]>([
    ["a name that is near another", [["doo"]], /itx\.tool has no "doo"; did you mean do\?/],
    ["a name that is near none", [["elsewhere"]], /it has do, nothing/],
    ["a group that is called", [["deep"]], /itx\.tool\.deep is no method; call one of one/],
    ["a group without a call", ["deep"], /go on with one/],
    ["a method without a call", ["do"], /call it: itx\.tool\.do\(\)/],
    ["a member of a method", ["do", "x"], /has no "x"/],
    ["a call of data", [["do"], ["a"]], /is data/],
    ["an anonymous call of data", [["do"], ["", 1]], /is data/],
    ["a handle at the end", [["open", "h"]], /go on with name/],
    ["a property of null", [["do"], "none", "x"], /is null/],
    ["a property of nothing", [["do"], "gone", "x"], /is nothing/],
    ["a name of prototypes", ["hasOwnProperty"], /has no "hasOwnProperty"/],
  ])("that do not lead on are refused by name: %s", async (_, steps, message) => {
    await expect(answer(...steps)).rejects.toEqual(notAMethod(message));
  });

  test("call nothing unless all of them lead somewhere and every argument fits", async () => {
    await expect(answer(["do"], "a", ["b"])).rejects.toEqual(notAMethod(/is data/));
    await expect(answer(["do", 1])).rejects.toMatchObject({
      code: "INVALID_INPUT",
      message: "itx.tool.do: arguments[0].name: is wrong; it takes () => void",
    });
    expect(called).toEqual([]);
    await expect(answer(["fails"])).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(answer(["stream"], "x")).rejects.toEqual(notAMethod(/is a stream/));
  });
});

describe("an answer on the wire", () => {
  const through = async (given: Answer): Promise<Answer> => await readResult(resultParts(given));
  const text = (bytes: number): string => "x".repeat(bytes - 2);

  test("is one value, or none", async () => {
    expect(await through({ kind: "value", value: { a: "ü" } })).toEqual({ kind: "value", value: { a: "ü" } });
    expect(await through({ kind: "value", value: undefined })).toEqual({ kind: "value", value: undefined });
    expect(await through({ kind: "value", value: null })).toEqual({ kind: "value", value: null });
  });

  test("has at most 8 MiB of JSON, and so has each item of a stream", async () => {
    const { resultBytes } = invocationLimits;
    for (const bytes of [resultBytes - 1, resultBytes]) await through({ kind: "value", value: text(bytes) });
    await expect(through({ kind: "value", value: text(resultBytes + 1) })).rejects.toMatchObject({
      code: "RESULT_TOO_LARGE",
      data: { bytes: resultBytes + 1, limit: resultBytes },
    });
    const items = async function* () {
      yield text(resultBytes + 1);
    };
    const stream = await through({ kind: "stream", items: { [Symbol.asyncIterator]: items } }).catch((error: unknown) => error);
    const failure = stream instanceof Error ? stream : await drain(stream as Answer).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "RESULT_TOO_LARGE" });
  });

  test("is a stream of items or of bytes; one that is empty is a stream too", async () => {
    const of = (...all: unknown[]): Answer => ({
      kind: "stream",
      items: {
        [Symbol.asyncIterator]: async function* () {
          yield* all;
        },
      },
    });
    expect(await drain(await through(of({ a: 1 }, null)))).toEqual([{ a: 1 }, null]);
    expect(await drain(await through(of(Buffer.from("ab"), Buffer.from("c"))))).toEqual([Buffer.from("ab"), Buffer.from("c")]);
    expect(await drain(await through(of()))).toEqual([]);
    const kinds: (StreamKind | undefined)[] = [];
    for (const given of [of(1), of(Buffer.from("a"))])
      for await (const { part } of resultParts(given)) if (part?.$case === "head") kinds.push(part.value.kind);
    expect(kinds).toEqual([StreamKind.STREAM_KIND_ITEMS, StreamKind.STREAM_KIND_CHUNKS]);
  });

  test("is made no faster than it is read, and ends where its reader leaves", async () => {
    let made = 0;
    let ended = false;
    const items = async function* () {
      try {
        for (;;) yield (made += 1);
      } finally {
        ended = true;
      }
    };
    const stream = await through({ kind: "stream", items: { [Symbol.asyncIterator]: items } });
    if (stream.kind !== "stream") throw new Error("no stream");
    for await (const item of stream.items) if (item === 3) break;
    expect([made, ended]).toEqual([3, true]);
  });
});

async function drain(given: Answer): Promise<unknown[]> {
  if (given.kind !== "stream") throw new Error("no stream");
  const all: unknown[] = [];
  for await (const item of given.items) all.push(item);
  return all;
}
