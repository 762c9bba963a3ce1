import { itx } from "iterate/events";
import { expect, test } from "vitest";
import type { ControlEvent, CoreState } from "./contract.js";
import { checkAgainstCore, foldCore, initialCore } from "./fold.js";

const target = ["itx", "builtins", "processors", ["get", "a"]];
const subscribed = (offset: number, name: string): ControlEvent => ({
  offset,
  type: itx.subscriptionConfigured.type,
  payload: { name, target },
});
const removed = (offset: number, name: string): ControlEvent => ({
  offset,
  type: itx.subscriptionConfigured.type,
  payload: { name, target: null },
});
const resumed = (offset: number, name: string, afterOffset?: number): ControlEvent => ({
  offset,
  type: itx.subscriptionDeliveryResumed.type,
  payload: { name, ...(afterOffset === undefined ? {} : { afterOffset }) },
});
const folded = (...events: readonly ControlEvent[]): CoreState => events.reduce(foldCore, initialCore);

/** What an event is refused with; nothing when it lands. */
function refusal(core: CoreState, next: ControlEvent): unknown {
  try {
    checkAgainstCore(core, next);
    return undefined;
  } catch (error) {
    return error;
  }
}

// The next event gets offset 10: the head is at 9.
const core = folded(subscribed(2, "counter"), subscribed(3, "regulars"));

test.for<[string, number | undefined]>([
  ["at its cursor", undefined],
  ["from the start", 0],
  ["after the head", 9],
])("a subscription is resumed %s", ([, afterOffset]) => {
  expect(refusal(core, resumed(10, "counter", afterOffset))).toBeUndefined();
});

test.for([10, 11, 1_000_000])(
  "a resume after %i, which is beyond the head, is refused and says where the head is",
  (afterOffset) => {
    expect(refusal(core, resumed(10, "counter", afterOffset))).toMatchObject({
      code: "INVALID_INPUT",
      message: `the head of this context is at offset 9; "counter" cannot go on after ${afterOffset}`,
      data: { headOffset: 9 },
    });
  },
);

test("a resume of a subscription that is not there is refused and names those that are", () => {
  expect(refusal(core, resumed(10, "conuter"))).toMatchObject({
    code: "NOT_FOUND",
    message: 'this context has no subscription "conuter"; it has "counter", "regulars"',
  });
  expect(refusal(foldCore(core, removed(9, "counter")), resumed(10, "counter"))).toMatchObject({ code: "NOT_FOUND" });
  expect(refusal(initialCore, resumed(10, "toString"))).toMatchObject({
    code: "NOT_FOUND",
    message: 'this context has no subscription "toString"; it has none: is it another context?',
  });
});

test("of many subscriptions a refused resume names the first ten", () => {
  const many = folded(...Array.from({ length: 11 }, (_, at) => subscribed(at + 2, `s${String(at).padStart(2, "0")}`)));
  expect((refusal(many, resumed(20, "x")) as Error).message).toMatch(/"s09" and 1 more$/);
});
