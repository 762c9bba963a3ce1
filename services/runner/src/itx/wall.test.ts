import { itx, project } from "iterate/events";
import { describe, expect, it } from "vitest";
import { assertCodeMayWrite, assertEmits } from "./wall.js";

const subscribe = (target: unknown) => ({ type: itx.subscriptionConfigured.type, payload: { name: "p", target } });
const rule = (payload: object) => ({ type: itx.rewriteRuleConfigured.type, payload: { match: "itx.db", ...payload } });
const schedule = (event: object) => ({
  type: itx.scheduleSet.type,
  payload: { key: "k", when: { afterMs: 1 }, events: [event, { type: "note" }, null] },
});
const codeOf = (work: () => unknown): string => {
  try {
    work();
    return "OK";
  } catch (error) {
    return (error as { code: string }).code;
  }
};

describe("what project code may write", () => {
  it.each([
    ["its own type", { type: "note" }, "OK"],
    ["a public type of the platform", { type: itx.subscriptionDeliveryResumed.type, payload: { name: "p" } }, "OK"],
    ["[iterate-18] a record of the platform", { type: project.workerUpdated.type }, "FORBIDDEN"],
    ["[iterate-41] a key of the platform", { type: "note", idempotencyKey: "itx/run-settled:9" }, "FORBIDDEN"],
    ["a type the platform has not", { type: "events.iterate.com/itx/run-forgotten" }, "INVALID_INPUT"],
    ["a type of its tests", { type: "events.iterate.com/test/pinged" }, "OK"],
    ["a key of a project", { type: "note", idempotencyKey: "project:9" }, "FORBIDDEN"],
    ["a key of a secret", { type: "note", idempotencyKey: "secret@9" }, "FORBIDDEN"],
    ["a key that only begins alike", { type: "note", idempotencyKey: "itxy/9" }, "OK"],
    [
      "[iterate-37] a subscription below builtins",
      subscribe(["itx", "builtins", "processors", ["get", "publication"]]),
      "FORBIDDEN",
    ],
    ["[iterate-37] builtins called", subscribe(["itx", ["builtins"], "processors"]), "FORBIDDEN"],
    ["[iterate-37] a subscription below builtins, as text", subscribe("itx.builtins.processors.get('publication')"), "FORBIDDEN"],
    ["[iterate-37] a rule that leads below builtins", rule({ target: "itx.cd('/').builtins.kv" }), "FORBIDDEN"],
    ["[iterate-37] a schedule of such a rule", schedule(rule({ target: "itx.builtins.kv" })), "FORBIDDEN"],
    ["a rule that leads to what its context answers", rule({ target: "itx.kv" }), "OK"],
    ["a schedule of such a rule", schedule(rule({ target: ["itx", "kv"] })), "OK"],
    ["a mask", rule({ target: null }), "OK"],
    ["a removal by target", rule({ target: null, ifTarget: "itx.kv" }), "FORBIDDEN"],
    ["the published code", rule({ match: "itx.config", target: null }), "FORBIDDEN"],
    ["a target that is no expression, which the log refuses", rule({ target: 7 }), "OK"],
    [
      "a subscription of its own class",
      subscribe(["itx", "facets", ["get", "t", { source: ["itx", "config"], module: "t.ts", className: "T" }]]),
      "OK",
    ],
    ["the end of a subscription", subscribe(null), "OK"],
  ])("%s: %j is %s", (_, event, code) => {
    expect(codeOf(() => assertCodeMayWrite(event))).toBe(code);
    expect(codeOf(() => assertEmits([event]))).toBe(code);
  });

  it.each([
    [1_000, "OK"],
    [1_001, "BATCH_TOO_LARGE"],
  ])("%i emitted events: %s", (count, code) => {
    expect(codeOf(() => assertEmits(Array.from({ length: count }, () => ({ type: "note" }))))).toBe(code);
  });

  it("refuses an emitted event that expects an offset, and one that is too large", () => {
    expect(codeOf(() => assertEmits([{ type: "note", offset: 3 }]))).toBe("INVALID_INPUT");
    expect(codeOf(() => assertEmits([{ type: "note", payload: "x".repeat(8 * 1024 * 1024) }]))).toBe("EVENT_TOO_LARGE");
  });
});
