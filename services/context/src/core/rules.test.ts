import { itx } from "iterate/events";
import { printExpression, printTarget, type Expression } from "iterate/expression";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { rowsOf, sizeOf } from "../rules/groups.js";
import { ruleTable } from "../rules/table.js";
import { checkedPayload } from "./control-event.js";
import type { ControlEvent, CoreState } from "./contract.js";
import { changedRows, checkAgainstCore, coreFromRows, foldCore, initialCore } from "./fold.js";
import { landsWhilePaused } from "./pause.js";

type Given = Readonly<Record<string, unknown>>;

const birth = (path: string, owner = "prj_1"): ControlEvent => ({ offset: 1, type: itx.created.type, payload: { owner, path } });
const configured = (payload: Given): Omit<ControlEvent, "offset"> => ({
  type: itx.rewriteRuleConfigured.type,
  payload: checkedPayload(itx.rewriteRuleConfigured, 1, Buffer.from(JSON.stringify(payload))),
});
const rule = (match: unknown, target: unknown, more: Given = {}) => configured({ match, target, ...more });
const paused = { type: itx.paused.type, payload: {} };
const resumed = { type: itx.resumed.type, payload: {} };

function folded(core: CoreState, ...events: readonly Omit<ControlEvent, "offset">[]): CoreState {
  let offset = lastOffset(core);
  return events.reduce((state, event) => {
    const next = { ...event, offset: ++offset };
    checkAgainstCore(state, next);
    return foldCore(state, next);
  }, core);
}

/** Offsets go on from the newest row. */
function lastOffset(core: CoreState): number {
  return Math.max(1, ...Object.values(rowsOf(core.rules)).map(({ configuredAtOffset }) => configuredAtOffset));
}

const root = foldCore(initialCore, birth("/"));
const child = foldCore(initialCore, birth("/a/b"));
const global = foldCore(initialCore, birth("/users/u", "global"));

/** The table as text, `match ⇒ target`. */
function shown({ rules }: CoreState): string[] {
  return Object.values(rowsOf(rules))
    .map(({ match, target }) => `${printExpression(match)} ⇒ ${target === null ? "null" : printTarget(target)}`)
    .sort();
}

describe("the table of rules", () => {
  it.each<[string, CoreState, (readonly [match: unknown, target: unknown])[], string[]]>([
    ["a rule", child, [["itx.db", "itx.kv"]], ["itx.db ⇒ itx.kv"]],
    [
      "a rule that is parsed",
      child,
      [
        [
          ["itx", "db"],
          ["itx", ["f", [{ "@": "arg" }]]],
        ],
      ],
      ["itx.db ⇒ itx.f([@])"],
    ],
    [
      "a rule anew",
      child,
      [
        ["itx.db", "itx.kv"],
        ["itx.db", "itx.r2"],
      ],
      ["itx.db ⇒ itx.r2"],
    ],
    [
      "rules that pin other arguments",
      child,
      [
        ["itx.f('a')", "itx.a"],
        ["itx.f('b')", "itx.b"],
        ["itx.f", "itx.c"],
      ],
      ["itx.f ⇒ itx.c", 'itx.f("a") ⇒ itx.a', 'itx.f("b") ⇒ itx.b'],
    ],
    [
      "one rule in two spellings",
      child,
      [
        ["itx.f({a:1,b:2})", "itx.a"],
        ["itx.f({'b':2,\"a\":1})", "itx.b"],
      ],
      ["itx.f({a: 1, b: 2}) ⇒ itx.b"],
    ],
    [
      "one rule with and without an empty call",
      child,
      [
        ["itx.db()", "itx.kv"],
        ["itx.db", "itx.r2"],
      ],
      ["itx.db ⇒ itx.r2"],
    ],
    ["a mask of an implicit root", root, [["itx.kv", null]], ["itx.kv ⇒ null"]],
    ["a mask of a context root", child, [["itx.append", null]], ["itx.append ⇒ null"]],
    ["a mask of a part of an implicit root", root, [["itx.kv.put", null]], ["itx.kv.put ⇒ null"]],
    ["a mask of one call", root, [["itx.kv.get('s')", null]], ['itx.kv.get("s") ⇒ null']],
    ["a mask of every root in global", global, [["itx.kv", null]], ["itx.kv ⇒ null"]],
    ["no mask of what only the root of the project answers", child, [["itx.kv", null]], []],
    ["no mask of what nothing answers", root, [["itx.nothing", null]], []],
    [
      "a row taken away where nothing is beneath",
      child,
      [
        ["itx.db", "itx.kv"],
        ["itx.db", null],
      ],
      [],
    ],
    [
      "a row masked where another is beneath",
      child,
      [
        ["itx.db", "itx.kv"],
        ["itx.db.get", "itx.r2"],
        ["itx.db.get", null],
      ],
      ["itx.db ⇒ itx.kv", "itx.db.get ⇒ null"],
    ],
    [
      "a mask over one that pins less",
      child,
      [
        ["itx.f", "itx.kv"],
        ["itx.f('a')", null],
      ],
      ["itx.f ⇒ itx.kv", 'itx.f("a") ⇒ null'],
    ],
    [
      "no mask over one that pins more",
      child,
      [
        ["itx.f('a')", "itx.kv"],
        ["itx.f", null],
      ],
      ['itx.f("a") ⇒ itx.kv'],
    ],
    [
      "no mask over a mask alone",
      child,
      [
        ["itx.append", null],
        ["itx.nothing", null],
      ],
      ["itx.append ⇒ null"],
    ],
    [
      "a mask over a bare row",
      child,
      [
        ["itx", 'itx.cd("/")'],
        ["itx.kv", null],
      ],
      ['itx ⇒ itx.cd("/")', "itx.kv ⇒ null"],
    ],
    ["a mask of everything", child, [["itx", null]], ["itx ⇒ null"]],
    [
      "a mask of everything, twice",
      child,
      [
        ["itx", null],
        ["itx", null],
      ],
      ["itx ⇒ null"],
    ],
    [
      "a mask of everything in the place of a bare row",
      child,
      [
        ["itx", 'itx.cd("/")'],
        ["itx", null],
      ],
      ["itx ⇒ null"],
    ],
    ["what an implicit rule says", child, [["itx.append", "itx.builtins.append"]], []],
    [
      "what an implicit rule says, over a mask",
      child,
      [
        ["itx.append", null],
        ["itx.append", "itx.builtins.append"],
      ],
      [],
    ],
    ["what an implicit rule would say elsewhere", child, [["itx.kv", "itx.builtins.kv"]], ["itx.kv ⇒ itx.builtins.kv"]],
    [
      "what an implicit rule says, for a part",
      child,
      [["itx.append", "itx.builtins.append.x"]],
      ["itx.append ⇒ itx.builtins.append.x"],
    ],
    [
      "a grant beside a mask of everything",
      child,
      [
        ["itx", null],
        ["itx.append", "itx.builtins.append"],
      ],
      ["itx ⇒ null", "itx.append ⇒ itx.builtins.append"],
    ],
    [
      "a grant taken away",
      child,
      [
        ["itx", null],
        ["itx.append", "itx.builtins.append"],
        ["itx.append", null],
      ],
      ["itx ⇒ null"],
    ],
    [
      "a grant before the mask of everything",
      child,
      [
        ["itx.append", "itx.builtins.append"],
        ["itx", null],
      ],
      ["itx ⇒ null"],
    ],
    ["the published code is no row of it", root, [["itx.config", null]], []],
  ])("%s", (_, core, rules, table) => {
    expect(shown(folded(core, ...rules.map(([match, target]) => rule(match, target))))).toEqual(table);
  });

  it.each<[string, Omit<ControlEvent, "offset">]>([
    ["the same rule", rule("itx.db", "itx.kv", { description: "d" })],
    ["the same rule in another spelling", rule(["itx", "db"], ["itx", "kv"], { description: "d" })],
    ["a rule that nothing is beneath, away once more", rule("itx.other", null)],
    ["what an implicit rule says", rule("itx.append", "itx.builtins.append")],
    ["a removal of another target", rule("itx.db", null, { ifTarget: "itx.r2" })],
    ["a removal of a rule that is not there", rule("itx.other", null, { ifTarget: "itx.kv" })],
    ["a removal of a mask", rule("itx.url", null, { ifTarget: "itx.url" })],
    ["a resume of what was not paused", resumed],
  ])("stays the same object for %s", (_, event) => {
    const core = folded(child, rule("itx.db", "itx.kv", { description: "d" }), rule("itx.url", null));
    expect(foldCore(core, { ...event, offset: 9 })).toBe(core);
  });

  it("keeps what a rule says about itself, and where it was said", () => {
    const core = folded(child, rule("itx.db", "itx.kv", { description: "d", instructions: "i", types: "t" }));
    const row = rowsOf(core.rules)["itx.db"]!;
    expect(row).toMatchObject({ description: "d", instructions: "i", types: "t", configuredAtOffset: 2 });
    const anew = rowsOf(folded(core, rule("itx.db", "itx.kv")).rules)["itx.db"]!;
    expect(anew).toEqual({ ...row, description: null, instructions: null, types: null, configuredAtOffset: 3 });
  });

  it("shows the published code as the row itx.config", () => {
    const source = { repo: "/repos/config", commit: "c" };
    const spec = { source, digest: "d", generation: 3, modules: [], mainModule: null };
    const target = ["itx", "builtins", "workers", ["get", spec]];
    const core = folded(root, rule("itx.db", "itx.kv"), rule("itx.config", target));
    expect(ruleTable(core)).toBe(ruleTable(core));
    expect(ruleTable(core)).toEqual({
      ...rowsOf(core.rules),
      "itx.config": expect.objectContaining({ match: ["itx", "config"], target, configuredAtOffset: 3 }) as object,
    });
    expect(Object.keys(ruleTable(folded(core, rule("itx.config", null))))).toEqual(["itx.db"]);
  });
});

describe("a handle that is let go", () => {
  const provided = folded(child, rule("itx.db", 'itx.live("a")'));
  const letGo = rule("itx.db", null, { ifTarget: 'itx.live("a")' });

  it("takes its rule away", () => {
    expect(shown(folded(provided, letGo))).toEqual([]);
  });

  it("leaves the rule that came in its place", () => {
    expect(shown(folded(provided, rule("itx.db", 'itx.live("b")'), letGo))).toEqual(['itx.db ⇒ itx.live("b")']);
  });

  it("leaves no mask behind where a rule is beneath", () => {
    expect(shown(folded(child, rule("itx", 'itx.cd("/")'), rule("itx.db", 'itx.live("a")'), letGo))).toEqual(['itx ⇒ itx.cd("/")']);
  });

  it("lands in a paused context and takes its rule away when that is resumed", () => {
    expect(landsWhilePaused(letGo.type, letGo)).toBe(true);
    expect(landsWhilePaused(letGo.type, rule("itx.db", null))).toBe(false);
    const held = folded(provided, paused, letGo, letGo);
    expect(shown(held)).toEqual(['itx.db ⇒ itx.live("a")']);
    expect(shown(folded(held, resumed))).toEqual([]);
    expect(folded(held, resumed).rules.held).toEqual([]);
  });

  it("that another rule has come for leaves that one, paused or not", () => {
    const other = folded(provided, rule("itx.db", 'itx.live("b")'), paused, letGo, resumed);
    expect(shown(other)).toEqual(['itx.db ⇒ itx.live("b")']);
  });
});

describe("a rule that is refused", () => {
  it.each<[string, Given, string]>([
    ["at itx.builtins", { match: "itx.builtins.kv", target: null }, "may not start at itx.builtins"],
    ["for invoke", { match: "itx.invoke", target: "itx.kv" }, "may not start with invoke"],
    ["for provide", { match: "itx.provide('x')", target: "itx.kv" }, "may not start with provide"],
    ["for a part of subscribe", { match: "itx.subscribe.x", target: "itx.kv" }, "may not start with subscribe"],
    ["with a hole in its match, as text", { match: "itx.f(@)", target: "itx.kv" }, "a hole stands in the target of a rule alone"],
    [
      "with a hole in its match, parsed",
      { match: ["itx", ["f", { a: [{ "@": "arg" }] }]], target: "itx.kv" },
      "may not hold holes",
    ],
    ["with a match that is none", { match: "core", target: "itx.kv" }, "an expression starts with itx"],
    ["named constructor", { match: "itx.constructor", target: "itx.kv" }, '"constructor" is no name'],
    ["named a/b", { match: "itx.a/b", target: "itx.kv" }, 'not "/"'],
    ["with a target that is no expression", { match: "itx.a", target: "kv" }, "payload.target: expression"],
    ["with a target that is a number", { match: "itx.a", target: 1 }, "payload.target"],
    [
      "that names a target to take away and another to put",
      { match: "itx.a", target: "itx.b", ifTarget: "itx.b" },
      "goes with a null target",
    ],
    ["for a part of itx.config", { match: "itx.config.fetch", target: null }, "which is one row"],
    ["for a call of itx.config", { match: "itx.config(1)", target: null }, "which is one row"],
    ["for itx.config with another target", { match: "itx.config", target: "itx.kv" }, "payload.target"],
    [
      "for itx.config with a description",
      { match: "itx.config", target: null, description: "mine" },
      "is no field of the row itx.config",
    ],
    ["with a field nobody knows", { match: "itx.a", target: null, priority: 1 }, "is not a field of this type"],
    ["with a lone surrogate in its prose", { match: "itx.a", target: null, instructions: "\ud800" }, "lone surrogate"],
  ])("%s", (_, payload, message) => {
    expect(() => configured(payload)).toThrow(
      expect.objectContaining({ code: "INVALID_INPUT", message: expect.stringContaining(message) as string }),
    );
  });

  it.each<[string, CoreState, string]>([
    ["itself", child, "itx"],
    ["its own path", child, 'itx.cd("/a/b")'],
    ["its own path, from where it is", child, 'itx.cd("../b/.")'],
    ["its own path, by the fixed point", child, 'itx.builtins.cd("/a/b")'],
    ["its own path, at the root", root, 'itx.cd("..")'],
  ])("for everything that leads back to %s", (_, core, target) => {
    expect(() => folded(core, rule("itx", target))).toThrow(expect.objectContaining({ code: "INVALID_INPUT" }));
  });

  it("not for everything that leads to another context", () => {
    expect(shown(folded(child, rule("itx", 'itx.cd("..")')))).toEqual(['itx ⇒ itx.cd("..")']);
  });
});

describe("limits", () => {
  const { perContext, bytesPerContext, targetBytes, descriptionChars, instructionsChars, typesBytes, matchBytes } = itx.ruleLimits;
  const target = (bytes: number): Expression => ["itx", ["f", "x".repeat(bytes - JSON.stringify(["itx", ["f", ""]]).length)]];

  test.each([-1, 0, 1])("of each field, %i above what is taken", (above) => {
    const named = (bytes: number) => `itx.${"m".repeat(bytes - "itx.".length)}`;
    const fields: [string, Given, string][] = [
      ["description", { description: "d".repeat(descriptionChars + above) }, "INVALID_INPUT"],
      ["instructions", { instructions: "é".repeat(instructionsChars + above) }, "INVALID_INPUT"],
      ["types", { types: "t".repeat(typesBytes + above) }, "INVALID_INPUT"],
      ["target", { target: target(targetBytes + above) }, "EXPRESSION_TOO_LONG"],
      ["match", { match: named(matchBytes + above) }, "INVALID_INPUT"],
    ];
    for (const [field, given, code] of fields) {
      const read = () => configured({ match: "itx.a", target: "itx.b", ...given });
      if (above <= 0) expect(read).not.toThrow();
      else
        expect(read).toThrow(
          expect.objectContaining({ code, data: expect.objectContaining({ field: `payload.${field}` }) as object }),
        );
    }
  });

  const full = (rows: number): CoreState => folded(child, ...Array.from({ length: rows }, (_, at) => rule(`itx.r${at}`, "itx.x")));

  test("of rows: one less, all, and one more", () => {
    const almost = full(perContext - 1);
    const all = folded(almost, rule("itx.last", "itx.x"));
    expect(sizeOf(all.rules).rows).toBe(perContext);
    expect(() => folded(all, rule("itx.more", "itx.x"))).toThrow(
      expect.objectContaining({ code: "INVALID_INPUT", data: { limit: perContext } }),
    );
    expect(() => folded(all, rule("itx.append", null))).toThrow(expect.objectContaining({ code: "INVALID_INPUT" }));
    expect(shown(folded(all, rule("itx.last", "itx.y"), rule("itx.r0", null)))).toContain("itx.last ⇒ itx.y");
  });

  test.each([-1, 0, 1])("of the bytes of a table, %i above what is kept", (above) => {
    const filled = folded(child, ...["a", "b", "c"].map((name) => rule(`itx.${name}`, target(targetBytes))));
    const rest = bytesPerContext - sizeOf(filled.rules).bytes;
    const overhead = sizeOf(folded(child, rule("itx.d", target(100))).rules).bytes - 100;
    const last = rule("itx.d", target(rest - overhead + above));
    if (above <= 0) expect(sizeOf(folded(filled, last).rules).bytes).toBe(bytesPerContext + above);
    else
      expect(() => folded(filled, last)).toThrow(
        expect.objectContaining({ code: "INVALID_INPUT", data: { limit: bytesPerContext, bytes: bytesPerContext + 1 } }),
      );
  });

  test("a context that is over one may shrink", () => {
    const before = full(perContext);
    expect(() => folded(before, rule("itx.r1", null))).not.toThrow();
  });
});

describe("what is stored", () => {
  it("is one group of the table for a rule that changes", () => {
    const before = folded(child, ...Array.from({ length: 300 }, (_, at) => rule(`itx.r${at}`, "itx.x")));
    const after = folded(before, rule("itx.r7", "itx.y"));
    const rows = changedRows(before, after, 400);
    expect(rows).toHaveLength(1);
    const all = changedRows({}, after, 400).filter(({ concern }) => concern.startsWith("rules/"));
    expect(all).toHaveLength(17);
    expect(rows[0]!.state.length * 8).toBeLessThan(all.reduce((sum, { state }) => sum + state.length, 0));
  });

  it("is what it was folded from, whatever the order and the removals", () => {
    const name = fc.constantFrom("a", "b", "c", "append", "kv", "url");
    const matches = fc.oneof(
      name.map((text) => `itx.${text}`),
      name.map((text) => `itx.${text}.x`),
      fc.constant("itx"),
    );
    const targets = fc.option(
      fc.oneof(
        name.map((text) => `itx.${text}`),
        name.map((text) => `itx.builtins.${text}`),
      ),
    );
    const events = fc.array(
      fc.oneof(
        { weight: 6, arbitrary: fc.tuple(matches, targets).map(([match, target]) => rule(match, target)) },
        { weight: 2, arbitrary: fc.tuple(matches, name).map(([match, of]) => rule(match, null, { ifTarget: `itx.${of}` })) },
        { weight: 1, arbitrary: fc.constantFrom(paused, resumed) },
      ),
      { maxLength: 30 },
    );
    fc.assert(
      fc.property(events, fc.constantFrom(root, child), (given, born) => {
        let core = born;
        const stored = new Map(changedRows(initialCore, born, 1).map((row) => [row.concern, row]));
        given.forEach((event, at) => {
          const next = foldCore(core, { ...event, offset: at + 2 });
          for (const row of changedRows(core, next, at + 2)) stored.set(row.concern, row);
          core = next;
        });
        expect(coreFromRows([...stored.values()]).core).toEqual(core);
        expect(sizeOf(core.rules).rows).toBe(Object.keys(rowsOf(core.rules)).length);
      }),
    );
  });
});
