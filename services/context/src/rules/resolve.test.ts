import fc from "fast-check";
import {
  argsOf,
  fillTarget,
  holesOf,
  matchExpression,
  nameOf,
  pinnedArgs,
  printExpression,
  stepsOf,
  toMatch,
  withArgs,
  withSteps,
  type Expression,
  type Json,
  type Step,
} from "iterate/expression";
import { describe, expect, it, test } from "vitest";
import { resolutionLimits, type ResolveInput, type RuleRow, type RuleTable } from "./contract.js";
import { resolve } from "./resolve.js";
import { vocabularyOfRoots } from "./roots.js";
import { ending, resolveText, ruleRow, tableOf, type Rule } from "./table.fixture.js";

const none = "NO_ITX_EXPRESSION_MATCH";
const child = { isRoot: false };
const chain = (length: number, end: string): Rule[] => [
  ...Array.from({ length: length - 1 }, (_, at): Rule => [`itx.r${at}`, `itx.r${at + 1}`]),
  [`itx.r${length - 1}`, end],
];

describe("what an expression stands for", () => {
  it.each<[string, Rule[], string, string, Partial<ResolveInput>?]>([
    ["a root is answered without a rule", [], "itx.kv.get('k')", 'itx.kv.get("k")'],
    ["a name that nobody answers", [], "itx.nothing", none],
    ["nothing but itx", [], "itx", none],
    ["below the root of a project, only context roots", [], "itx.kv.get('k')", none, child],
    ["below the root of a project, a context root", [], "itx.append({})", "itx.append({})", child],
    ["the fixed point is open everywhere", [], "itx.builtins.kv.get('k')", 'itx.kv.get("k")', child],
    [
      "the fixed point is behind no rule",
      [
        ["itx", null],
        ["itx.kv", null],
      ],
      "itx.builtins.kv",
      "itx.kv",
    ],
    ["a name of JavaScript's objects is no builtin", [], "itx.builtins.toString()", none],
    ["nothing behind the fixed point", [], "itx.builtins", none],
    ["a rule that names a root", [["itx.db", "itx.kv"]], "itx.db.get('k')", 'itx.kv.get("k")'],
    ["a rule of two steps", [["itx.db.read", "itx.kv.get"]], "itx.db.read('k').x", 'itx.kv.get("k").x'],
    [
      "the longest match",
      [
        ["itx.db", "itx.kv"],
        ["itx.db.get", "itx.secrets.list"],
      ],
      "itx.db.get('k')",
      'itx.secrets.list("k")',
    ],
    [
      "a shorter match where the longer does not fit",
      [
        ["itx.db", "itx.kv"],
        ["itx.db.get('a')", "itx.secrets"],
      ],
      "itx.db.get('b')",
      'itx.kv.get("b")',
    ],
    ["a row before the implicit one", [["itx.kv", "itx.secrets"]], "itx.kv.get('k')", 'itx.secrets.get("k")'],
    ["a longer row before the implicit one", [["itx.kv.get", "itx.secrets.list"]], "itx.kv.get()", "itx.secrets.list()"],
    ["the implicit one where a longer row does not fit", [["itx.kv.get", null]], "itx.kv.put()", "itx.kv.put()"],
    ["a bare row after the implicit ones", [["itx", 'itx.cd("/")']], "itx.append({})", "itx.append({})", child],
    ["a bare row for everything else", [["itx", 'itx.cd("/")']], "itx.kv.get('k')", '/ itx.kv.get("k")', child],
    ["a bare row for itx itself", [["itx", 'itx.cd("/")']], "itx", "/ itx", child],
    ["a bare row that is called", [["itx", "itx.kv.get"]], "itx('k')", 'itx.kv.get("k")'],
    ["a bare mask before the implicit ones", [["itx", null]], "itx.append({})", none, child],
    [
      "a grant beside a bare mask",
      [
        ["itx", null],
        ["itx.append", "itx.builtins.append"],
      ],
      "itx.append({})",
      "itx.append({})",
      child,
    ],
    [
      "what is not granted beside a bare mask",
      [
        ["itx", null],
        ["itx.append", "itx.builtins.append"],
      ],
      "itx.whoami()",
      none,
      child,
    ],
    [
      "a grant that leans on what is masked",
      [
        ["itx", null],
        ["itx.write", "itx.append"],
      ],
      "itx.write({})",
      none,
      child,
    ],
    ["a mask of a root", [["itx.kv", null]], "itx.kv.get('k')", none],
    ["a mask of one call", [["itx.kv.get('secret')", null]], 'itx.kv.get("secret")', none],
    ["a call beside a masked one", [["itx.kv.get('secret')", null]], 'itx.kv.get("open")', 'itx.kv.get("open")'],
    ["a mask of a call masks it with more arguments", [["itx.kv.get('secret')", null]], 'itx.kv.get("secret", 1)', none],
    [
      "a target that a rule masks",
      [
        ["itx.db", "itx.kv"],
        ["itx.kv", null],
      ],
      "itx.db.get()",
      none,
    ],
    [
      "more pins win",
      [
        ["itx.ai.run('m')", "itx.kv.one"],
        ["itx.ai.run('m', 2)", "itx.kv.two"],
      ],
      "itx.ai.run('m', 2, 3)",
      "itx.kv.two(3)",
    ],
    [
      "fewer pins where more differ",
      [
        ["itx.ai.run('m')", "itx.kv.one"],
        ["itx.ai.run('m', 2)", "itx.kv.two"],
      ],
      "itx.ai.run('m', 1)",
      "itx.kv.one(1)",
    ],
    [
      "no pins where all differ",
      [
        ["itx.ai.run('m')", "itx.kv.one"],
        ["itx.ai.run", "itx.kv.any"],
      ],
      "itx.ai.run('x')",
      'itx.kv.any("x")',
    ],
    [
      "pins whose keys are in another order",
      [["itx.ai.run({a: 1, b: 2})", "itx.kv.one"]],
      "itx.ai.run({b: 2, a: 1})",
      "itx.kv.one()",
    ],
    ["arguments before the last matched step", [["itx.db.get", "itx.kv.get"]], "itx.db(1).get('k')", none],
    ["arguments on a name", [["itx.db", "itx.kv.get"]], "itx.db('k')", 'itx.kv.get("k")'],
    ["arguments on a call", [["itx.db", 'itx.kv.open("a")']], "itx.db('k')", 'itx.kv.open("a")("k")'],
    ["an empty call of a call", [["itx.db", 'itx.kv.open("a")']], "itx.db()", 'itx.kv.open("a")()'],
    ["no arguments on a call", [["itx.db", 'itx.kv.open("a")']], "itx.db.get('k')", 'itx.kv.open("a").get("k")'],
    [
      "a pinned call that stands for a call",
      [["itx.weather('london')", 'itx.kv.get("w")']],
      "itx.weather('london').temp",
      'itx.kv.get("w").temp',
    ],
    ["a pinned call that stands for a name", [["itx.ai.run('m')", "itx.kv.run"]], "itx.ai.run('m')", "itx.kv.run()"],
    ["what follows an anonymous call", [["itx.f(1)(2)", "itx.kv.g"]], "itx.f(1)(2, 3).x", "itx.kv.g(3).x"],
    ["a splice", [["itx.db.get", 'itx.kv.get("tenant", @)']], "itx.db.get('k', 2)", 'itx.kv.get("tenant", "k", 2)'],
    ["a splice of what a match does not pin", [["itx.db.get('a')", "itx.kv.get(@)"]], "itx.db.get('a', 'b')", 'itx.kv.get("b")'],
    ["a splice of a call that is none", [["itx.db", "itx.kv.open(@)"]], "itx.db.get(1)", "itx.kv.open().get(1)"],
    ["one argument inside another", [["itx.ask", "itx.ai.run({prompt: @})"]], "itx.ask('why')", 'itx.ai.run({prompt: "why"})'],
    ["two arguments where one is placed", [["itx.ask", "itx.ai.run({prompt: @})"]], "itx.ask('why', 'now')", "INVALID_INPUT"],
    [
      "a merge",
      [["itx.ask", 'itx.ai.run({...@, model: "m"})']],
      "itx.ask({model: 'x', prompt: 'why'})",
      'itx.ai.run({model: "m", prompt: "why"})',
    ],
    ["a merge of no object", [["itx.ask", "itx.ai.run({...@})"]], "itx.ask('why')", "INVALID_INPUT"],
    ["the caller", [["itx.mine", "itx.kv.of(@caller)"]], "itx.mine.get('k')", 'itx.kv.of("/caller").get("k")'],
    [
      "the caller in any step",
      [["itx.mine", "itx.kv.of({of: [@caller]}).get"]],
      "itx.mine('k')",
      'itx.kv.of({of: ["/caller"]}).get("k")',
    ],
    ["a literal", [["itx.mine", 'itx.kv.of({"@": "args"})']], "itx.mine", 'itx.kv.of({"@": "args"})'],
    ["what looks like a hole in a call", [["itx.put", "itx.kv.put"]], 'itx.put({"@": "caller"})', 'itx.kv.put({"@": "caller"})'],
    [
      "what looks like a hole in a placed argument",
      [
        ["itx.put", "itx.kv.put({a: @})"],
        ["itx.kv.put", "itx.kv.set(@)"],
      ],
      'itx.put({"@": "caller"})',
      'itx.kv.set({a: {"@": "caller"}})',
    ],
    ["another context", [["itx.agents", 'itx.cd("/agents")']], "itx.agents.list(1).x", "/agents itx.list(1).x"],
    ["another context through the fixed point", [], 'itx.builtins.cd("..").kv', ".. itx.kv", child],
    ["a path that is no text", [], "itx.cd(1)", "INVALID_INPUT"],
    ["two paths", [], "itx.cd('/a', '/b')", "INVALID_INPUT"],
    ["no path", [], "itx.cd.kv", "INVALID_INPUT"],
    ["31 rules", chain(31, "itx.builtins.kv"), "itx.r0.get('k')", 'itx.kv.get("k")'],
    ["31 rules to a root without one", chain(31, "itx.kv"), "itx.r0.get('k')", 'itx.kv.get("k")'],
    ["32 rules", chain(32, "itx.builtins.kv"), "itx.r0.get('k')", none],
    ["a rule that leads to itself", [["itx.a", "itx.a"]], "itx.a", none],
    [
      "a circle",
      [
        ["itx.a", "itx.b"],
        ["itx.b", "itx.a"],
      ],
      "itx.a",
      none,
    ],
    ["a rule that grows", [["itx.a", "itx.a.b"]], "itx.a", none],
  ])("%s", (_, rules, expression, end, rest) => {
    expect(ending(expression, rules, rest)).toBe(end);
  });

  it("tells the rows it went through, and which one masks", () => {
    const rules: Rule[] = [
      ["itx.a", "itx.b"],
      ["itx.b", "itx.kv"],
      ["itx.c", null],
    ];
    expect(resolveText("itx.a.get(1)", rules).via.map(({ match }) => printExpression(match))).toEqual(["itx.a", "itx.b"]);
    expect(() => resolveText("itx.c('a secret')", rules)).toThrow(
      expect.objectContaining({
        code: none,
        message: "a rule masks itx.c here, through 1 rule",
        data: { expression: "itx.c", rules: 1, maskedBy: "itx.c", configuredAtOffset: 3 },
      }),
    );
  });
});

test.each<[string, Rule[], string]>([
  ["twice in a row", Array.from({ length: 30 }, (_, at): Rule => [`itx.r${at}`, `itx.r${at + 1}(@, @)`]), "EXPRESSION_TOO_LONG"],
  [
    "twice in an object",
    Array.from({ length: 30 }, (_, at): Rule => [`itx.r${at}`, `itx.r${at + 1}({a: @, b: @})`]),
    "EXPRESSION_TOO_LONG",
  ],
  ["deeper and deeper", Array.from({ length: 30 }, (_, at): Rule => [`itx.r${at}`, `itx.r${at + 1}([[[@]]])`]), "INVALID_INPUT"],
])("rules that place an argument %s are held to a size", (_, rules, code) => {
  expect(ending("itx.r0('abc')", rules)).toBe(code);
});

describe("a call through a long table", () => {
  const long = tableOf(...Array.from({ length: 999 }, (_, at): Rule => [`itx.other${at}.method`, "itx.kv"]), ["itx.db", "itx.kv"]);

  it("looks at the rows alone that begin as it does", () => {
    let looks = 0;
    const counted: RuleTable = Object.fromEntries(
      Object.entries(long).map(([key, row]) => [
        key,
        {
          ...row,
          get match() {
            looks += 1;
            return row.match;
          },
        } satisfies RuleRow,
      ]),
    );
    const input = {
      table: counted,
      roots: vocabularyOfRoots,
      isRoot: true,
      expression: ["itx", "db", ["get", "k"]] as Expression,
      caller: "/",
    };
    resolve(input);
    looks = 0;
    resolve(input);
    expect(looks).toBe(1);
  });
});

test("resolution is what trying every row answers, over random tables and calls", () => {
  const rows = fc.uniqueArray(fc.record({ match: matches, target: targets }), {
    maxLength: 8,
    selector: ({ match }) => printExpression(match),
  });
  fc.assert(
    fc.property(rows, calls, fc.boolean(), (given, expression, isRoot) => {
      const table: RuleTable = Object.fromEntries(
        given.map(({ match, target }, index) => [printExpression(match), ruleRow(match, target, index + 1)]),
      );
      const input = { table, roots: vocabularyOfRoots, isRoot, expression, caller: "/caller" };
      expect(outcome(() => modelOf(input))).toEqual(outcome(() => endOf(input)));
    }),
    { numRuns: 3_000 },
  );
});

const names = fc.constantFrom("a", "b", "kv", "append", "nothing");
const argument: fc.Arbitrary<Json> = fc.constantFrom<Json>(1, "x", { k: 1 }, []);
const step = fc.oneof(
  names,
  fc.tuple(names, fc.array(argument, { maxLength: 2 })).map(([name, args]): Step => [name, ...args]),
);
const calls = fc.array(step, { maxLength: 4 }).map((steps): Expression => ["itx", ...steps]);
const matches = fc.array(step, { maxLength: 3 }).map((steps) => toMatch(["itx", ...steps]));
const lastArgument = fc.oneof(
  argument,
  fc.constantFrom<Json>({ "@": "args" }, [{ "@": "arg" }], { "@": "merge", with: { k: 2 } }, { "@": "caller" }),
);
const targets: fc.Arbitrary<Expression | null> = fc.option(
  fc
    .tuple(
      fc.constantFrom<readonly Step[]>([], ["builtins"], [["cd", "/x"]]),
      fc.array(step, { maxLength: 2 }),
      fc.oneof(
        names,
        fc.tuple(names, fc.array(lastArgument, { maxLength: 2 })).map(([name, args]): Step => [name, ...args]),
      ),
    )
    .map(([start, middle, last]): Expression => ["itx", ...start, ...middle, last]),
);

/** Tries every row, implicit ones among them, and takes the first of them sorted. */
function modelOf({ table, isRoot, expression, caller }: ResolveInput): Expression {
  const own = Object.values(table).map(({ match, target }) => ({ match, target, isOwn: true }));
  const isJail = own.some(({ match, target }) => match.length === 1 && target === null);
  const implicit = vocabularyOfRoots.names
    .filter((name) => !isJail && (isRoot || vocabularyOfRoots.isContextRoot(name)))
    .map((name) => ({ match: ["itx", name] as Expression, target: ["itx", "builtins", name] as Expression, isOwn: false }));
  let current = expression;
  for (let left = resolutionLimits.depth; ;) {
    if (current[1] === "builtins") return current;
    const [best] = [...own, ...implicit]
      .filter(({ match }) => matchExpression(match, current) !== null)
      .sort(
        (one, other) =>
          other.match.length - one.match.length ||
          pinnedArgs(other.match) - pinnedArgs(one.match) ||
          Number(other.isOwn) - Number(one.isOwn),
      );
    if (best?.target == null) throw new Error(none);
    if (best.isOwn && --left === 0) throw new Error(none);
    const { args, steps } = matchExpression(best.match, current)!;
    const { takesArgs } = holesOf(best.target);
    let next = fillTarget(best.target, { args: args ?? [], caller });
    const last = best.match.at(-1) as Step;
    const isWholly =
      args?.length === 0 && best.match.length > 1 && (argsOf(last)?.length ?? 0) > 0 && typeof next.at(-1) !== "string";
    if (args !== null && !takesArgs && !isWholly) next = withArgs(next, args);
    current = withSteps(next, steps);
  }
}

function endOf(input: ResolveInput): Expression {
  const found = resolve(input);
  if (found.kind === "builtin") return ["itx", "builtins", ...found.steps];
  return withSteps(["itx", "builtins", ["cd", found.path]], stepsOf(found.expression));
}

/** Where it ends; a fault of the call itself and a builtin that nobody has are told apart from the rest. */
function outcome(end: () => Expression): unknown {
  try {
    const expression = end();
    const root = expression[2];
    return root !== undefined && vocabularyOfRoots.has(nameOf(root)) ? printExpression(expression) : none;
  } catch (error) {
    return (error as { code?: string }).code === "INVALID_INPUT" ? "INVALID_INPUT" : none;
  }
}
