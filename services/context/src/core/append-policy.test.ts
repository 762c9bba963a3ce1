import { itx } from "iterate/events";
import { describe, expect, it } from "vitest";
import { appendPolicy, checkAgainstPolicy, type AppendToJudge } from "./append-policy.js";
import { initialCore } from "./fold.js";
import type { AppendRule } from "./contract.js";

const rule = (fields: Partial<AppendRule>): AppendRule => ({ types: ["*"], paths: ["*"], origins: [], ...fields });
const configured = (rules: readonly AppendRule[] | null, offset = 7) => ({
  offset,
  type: itx.appendPolicyConfigured.type,
  payload: { rules },
});

describe("the fold", () => {
  it.each([
    ["rules", [rule({})], { rules: [rule({})], configuredAtOffset: 7 }],
    ["no rules", [], null],
    ["null", null, null],
  ])("keeps what the newest fact says: %s", (_what, rules, state) => {
    expect(
      appendPolicy.reduce({ rules: [rule({ types: ["old"] })], configuredAtOffset: 2 }, configured(rules), initialCore),
    ).toEqual(state);
  });
});

describe("a policy", () => {
  const append: AppendToJudge = { origin: "/agents/a", isPerson: false, type: "sales/order-placed", path: "/orders" };
  const judge = (rules: readonly AppendRule[], change: Partial<AppendToJudge> = {}) =>
    expect(() => checkAgainstPolicy({ rules, configuredAtOffset: 7 }, { ...append, ...change }));

  it.each<[string, AppendRule[], Partial<AppendToJudge>?]>([
    ["whom its rule names", [rule({ origins: ["/agents/a"] })]],
    ["whom its rule names by prefix", [rule({ origins: ["/agents/*"] })]],
    ["another type", [rule({ types: ["sales/order-shipped"] })]],
    ["another type than the prefix", [rule({ types: ["stock/*"] })]],
    ["another path", [rule({ paths: ["/stock"] })]],
    ["the path itself when only those below are covered", [rule({ paths: ["/orders/*"] })]],
    [
      "who satisfies all rules that cover it",
      [rule({ origins: ["/agents/*"] }), rule({ types: ["sales/*"], origins: ["/agents/a"] })],
    ],
    [
      "people who change the policy",
      [rule({ origins: [] })],
      { isPerson: true, origin: "/", path: "/", type: itx.appendPolicyConfigured.type },
    ],
  ])("admits %s", (_what, rules, change) => {
    judge(rules, change).not.toThrow();
  });

  it.each<[string, AppendRule[], Partial<AppendToJudge>?]>([
    ["everyone when a rule names nobody", [rule({})]],
    ["whom no pattern names", [rule({ origins: ["/agents/b", "/agents/a/*"] })]],
    ["a longer name than an exact one", [rule({ paths: ["*"], origins: ["/agents"] })]],
    ["who satisfies one of two rules", [rule({ origins: ["/agents/a"] }), rule({ origins: ["/agents/b"] })]],
    ["people who append something else", [rule({})], { isPerson: true, origin: "/" }],
    [
      "code that changes the policy",
      [rule({ types: [itx.appendPolicyConfigured.type] })],
      { type: itx.appendPolicyConfigured.type },
    ],
  ])("refuses %s", (_what, rules, change) => {
    judge(rules, change).toThrow(expect.objectContaining({ code: "FORBIDDEN" }));
  });

  it("names the rule and where it was decided", () => {
    judge([rule({ types: ["x"] }), rule({})]).toThrow(
      expect.objectContaining({
        data: { rule: 1, configuredAtOffset: 7, origin: "/agents/a", type: append.type, path: "/orders" },
      }),
    );
  });
});
