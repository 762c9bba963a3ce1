import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { AlwaysOnSampler, TracerProvider, type ReadableSpan } from "@opentelemetry/sdk-trace";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Caller, ExecutionClaims } from "./caller.js";
import { nameSpanOwner } from "./span-owner.js";

beforeAll(() => void context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()));
afterAll(() => context.disable());

function ownerOf(request: unknown, caller: Caller): unknown {
  let ended: ReadableSpan | undefined;
  const settled = Promise.resolve();
  const provider = new TracerProvider({
    sampler: new AlwaysOnSampler(),
    spanProcessors: [
      { onStart: () => {}, onEnd: (span) => void (ended = span), forceFlush: () => settled, shutdown: () => settled },
    ],
  });
  const span = provider.getTracer("test").startSpan("call");
  context.with(trace.setSpan(context.active(), span), () => nameSpanOwner(request, caller));
  span.end();
  return ended?.attributes["owner"];
}

const plain: Caller = { service: "ingress" };
const forCode: Caller = { service: "runner", execution: { owner: "prj_code" } as ExecutionClaims };

test.for<[string, unknown, Caller, string | undefined]>([
  ["its own", { owner: "prj_a" }, plain, "prj_a"],
  ["its context's", { context: { owner: "prj_b", path: "/" } }, plain, "prj_b"],
  ["its repo's", { repo: { owner: "prj_c", path: "/" } }, plain, "prj_c"],
  ["its own before the code's", { owner: "prj_a" }, forCode, "prj_a"],
  ["the code's, when it has none", { n: 1 }, forCode, "prj_code"],
  ["none, when it is empty", { owner: "" }, plain, undefined],
  ["none, when nothing names one", { context: undefined }, plain, undefined],
  ["none of a request that is no object", "text", plain, undefined],
])("the owner of a call is %s", ([, request, caller, owner]) => {
  expect(ownerOf(request, caller)).toBe(owner);
});

test("without a span there is nothing to name", () => {
  expect(() => nameSpanOwner({ owner: "prj_a" }, plain)).not.toThrow();
});
