/** Rules at the door and in the decision of a commit: what code may not write, and where it may not write at all. */
import { newId } from "@iterate-platform/service/ids";
import { useTestDatabase } from "@iterate-platform/testing";
import { itx } from "iterate/events";
import { printExpression, printTarget } from "iterate/expression";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Writer } from "../caller/contract.js";
import { rowsOf } from "../rules/groups.js";
import { code, migrateLog, person, service, startEngine, type EventFields, type TestEngine } from "./engine.fixture.js";
import { statementCounts } from "./postgres/sql-session.js";

const database = useTestDatabase();
let one: TestEngine;
let other: TestEngine;
/** A project of its own for each test. */
let owner: string;

beforeAll(async () => {
  await migrateLog(database.url);
  [one, other] = [startEngine({ url: database.url }), startEngine({ url: database.url })];
});
afterAll(() => Promise.all([one?.close(), other?.close()]));
beforeEach(() => {
  owner = newId("prj");
});

const appendAll = (engine: TestEngine, path: string, events: EventFields[], writer: Writer) =>
  engine.append(path, events, { address: { owner, path }, writer: writer.owner === null ? writer : { ...writer, owner } });
const append = (engine: TestEngine, path: string, fields: EventFields, writer: Writer) => appendAll(engine, path, [fields], writer);
const rule = (match: string, target: unknown, more: object = {}): EventFields => ({
  type: itx.rewriteRuleConfigured.type,
  payload: { match, target, ...more },
});
const codeOf = (origin: string) => code({ origin });
const builtin: Writer = { ...codeOf("/a"), isPlatform: true };
const masked = { code: "NO_ITX_EXPRESSION_MATCH" };
const forbidden = { code: "FORBIDDEN" };

const tableOf = (engine: TestEngine, path: string): string[] =>
  Object.values(rowsOf(engine.cache.peek({ owner, path })!.core.rules)).map(
    ({ match, target }) => `${printExpression(match)} ⇒ ${target === null ? "null" : printTarget(target)}`,
  );

describe("the wall around code", () => {
  it.each<[string, EventFields]>([
    ["a rule that leads to itx.builtins", rule("itx.db", "itx.builtins.kv")],
    ["a parsed rule that leads to itx.builtins", rule("itx.db", ["itx", "builtins", "kv"])],
    ["a rule that names builtins behind another context", rule("itx.db", "itx.cd('/').builtins.kv")],
    ["a rule that calls builtins", rule("itx.db", "itx.builtins(1).kv")],
    ["a removal by target", rule("itx.db", null, { ifTarget: "itx.kv" })],
    ["the published code", rule("itx.config", null)],
    [
      "a subscription of a builtin",
      { type: itx.subscriptionConfigured.type, payload: { name: "s", target: "itx.builtins.processors.get('a')" } },
    ],
    [
      "a schedule of a rule that leads to itx.builtins",
      {
        type: itx.scheduleSet.type,
        payload: {
          key: "k",
          when: { afterMs: 1 },
          events: [{ type: itx.rewriteRuleConfigured.type, payload: { match: "itx.db", target: "itx.builtins.kv" } }],
        },
      },
    ],
    [
      "a schedule of a subscription of a builtin",
      {
        type: itx.scheduleSet.type,
        payload: {
          key: "k",
          when: { afterMs: 1 },
          events: [{ type: itx.subscriptionConfigured.type, payload: { name: "s", target: "itx.builtins.kv.get" } }],
        },
      },
    ],
    ["a key of the platform", { type: "test/done", idempotencyKey: "itx/run-settled:9" }],
  ])("refuses %s, and what was sent with it", async (_, event) => {
    await append(one, "/a", {}, service);
    const before = one.cache.peek({ owner, path: "/a" })!.commitNo;
    await expect(appendAll(one, "/a", [{ type: "test/beside" }, event], codeOf("/a"))).rejects.toMatchObject(forbidden);
    expect(one.cache.peek({ owner, path: "/a" })!.commitNo).toBe(before);
  });

  it("takes rules of code that lead to what the context answers", async () => {
    await append(one, "/a", rule("itx.db", "itx.kv"), codeOf("/a"));
    await append(one, "/a", rule("itx.all", 'itx.cd("/")'), codeOf("/a"));
    await append(one, "/a", rule("itx.append", null), codeOf("/b"));
    expect(tableOf(one, "/a").sort()).toEqual(['itx.all ⇒ itx.cd("/")', "itx.append ⇒ null", "itx.db ⇒ itx.kv"]);
  });

  it("is none for people, nor for the platform's own code", async () => {
    await append(one, "/a", rule("itx.db", "itx.builtins.kv"), person);
    await append(one, "/a", rule("itx.db", null, { ifTarget: "itx.builtins.kv" }), person);
    await append(one, "/a", rule("itx.other", "itx.builtins.kv"), builtin);
    expect(tableOf(one, "/a")).toEqual(["itx.other ⇒ itx.builtins.kv"]);
    await expect(append(one, "/", rule("itx.config", null), person)).rejects.toMatchObject(forbidden);
    await expect(append(one, "/", rule("itx.config", null), builtin)).resolves.toHaveLength(1);
  });
});

describe("a context that masks itx.append", () => {
  it("takes appends of people and of the platform, and none of code", async () => {
    await append(one, "/jail", rule("itx", null), person);
    for (const writer of [codeOf("/jail"), codeOf("/a"), codeOf("/")])
      await expect(append(one, "/jail", {}, writer)).rejects.toMatchObject({ ...masked, data: { maskedBy: "itx" } });
    for (const writer of [person, service, builtin]) await expect(append(one, "/jail", {}, writer)).resolves.toHaveLength(1);
  });

  it("keeps its code from appending anywhere", async () => {
    await append(one, "/jail", rule("itx", null), person);
    await expect(append(one, "/a", {}, codeOf("/jail"))).rejects.toMatchObject(masked);
    await expect(append(one, "/", { ephemeral: true }, codeOf("/jail"))).rejects.toMatchObject(masked);
    await expect(append(one, "/a", {}, codeOf("/b"))).resolves.toHaveLength(1);
  });

  it("takes appends of code again once it grants them, and lets its code append where it may go", async () => {
    await append(one, "/jail", rule("itx", null), person);
    await append(one, "/jail", rule("itx.append", "itx.builtins.append"), person);
    for (const writer of [codeOf("/jail"), codeOf("/a")]) await expect(append(one, "/jail", {}, writer)).resolves.toHaveLength(1);
    await expect(append(one, "/a", {}, codeOf("/jail"))).rejects.toMatchObject(masked);
    await append(one, "/jail", rule("itx.cd('/a')", "itx.builtins.cd('/a')"), person);
    await expect(append(one, "/a", {}, codeOf("/jail"))).resolves.toHaveLength(1);
    await expect(append(one, "/b", {}, codeOf("/jail"))).rejects.toMatchObject(masked);
  });

  it.each([
    ["another context", 'itx.cd("/log").append'],
    ["another form of what is appended", "itx.builtins.append({...@, type: 'test/limited'})"],
    ["something else", "itx.builtins.whoami"],
  ])("takes none that code makes directly where itx.append stands for %s", async (_, target) => {
    await append(one, "/jail", rule("itx.append", target), person);
    for (const writer of [codeOf("/jail"), codeOf("/a")])
      await expect(append(one, "/jail", {}, writer)).rejects.toMatchObject(masked);
    await expect(append(one, "/jail", {}, { ...codeOf("/a"), isByRules: true })).resolves.toHaveLength(1);
  });

  it.each([
    ["nothing", null],
    ["another context", 'itx.builtins.cd("/elsewhere")'],
    ["a context whatever the path", 'itx.builtins.cd("/a", @)'],
  ])("lets its code append to no other context where itx.cd stands for %s", async (_, target) => {
    await append(one, "/jail", rule("itx.cd", target), person);
    await expect(append(one, "/a", {}, codeOf("/jail"))).rejects.toMatchObject({
      ...masked,
      message: expect.stringContaining("itx.cd") as string,
    });
    await expect(append(one, "/jail", {}, codeOf("/jail"))).resolves.toHaveLength(1);
    await expect(append(one, "/a", {}, { ...codeOf("/jail"), isByRules: true })).resolves.toHaveLength(1);
  });

  it("is one as soon as that is acknowledged, through every process", async () => {
    for (const engine of [one, other]) {
      await append(engine, "/jail", {}, codeOf("/jail"));
      await append(engine, "/a", {}, codeOf("/jail"));
    }
    for (let round = 0; round < 10; round += 1) {
      const [writing, judging] = round % 2 === 0 ? [one, other] : [other, one];
      for (const name of ["append", "cd"]) await append(writing, "/jail", rule(`itx.${name}`, null), person);
      await expect(append(judging, "/jail", {}, codeOf("/a"))).rejects.toMatchObject(masked);
      await expect(append(judging, "/a", {}, codeOf("/jail"))).rejects.toMatchObject(masked);
      for (const name of ["append", "cd"]) await append(writing, "/jail", rule(`itx.${name}`, `itx.builtins.${name}`), person);
      await expect(append(judging, "/jail", {}, codeOf("/a"))).resolves.toHaveLength(1);
      await expect(append(judging, "/a", {}, codeOf("/jail"))).resolves.toHaveLength(1);
    }
  });

  it("answers what code appended before", async () => {
    const known: EventFields = { type: "test/known", idempotencyKey: "k" };
    const [receipt] = await append(one, "/jail", known, codeOf("/a"));
    await append(one, "/jail", rule("itx", null), person);
    expect(await append(one, "/jail", known, codeOf("/a"))).toMatchObject([{ offset: receipt!.offset, existing: true }]);
  });
});

describe("a jail", () => {
  const jail = async () => {
    await append(one, "/jail", rule("itx", null), person);
    await append(one, "/jail", rule("itx.append", "itx.builtins.append"), person);
    await append(one, "/jail", rule("itx.append.x", null), person);
  };

  it.each<[string, Writer]>([
    ["its own code", codeOf("/jail")],
    ["code of another context", codeOf("/")],
    ["a service of the platform", service],
    ["code of the platform", builtin],
    ["the schedule that a person set", { ...service, isPlatform: false }],
  ])("is not opened by %s", async (_, writer) => {
    await jail();
    const before = tableOf(one, "/jail");
    for (const event of [rule("itx", 'itx.cd("/")'), rule("itx.append.x", "itx.append")])
      await expect(append(one, "/jail", event, writer)).rejects.toMatchObject(forbidden);
    expect(tableOf(one, "/jail")).toEqual(before);
  });

  it("is opened by a person", async () => {
    await jail();
    await append(one, "/jail", rule("itx", 'itx.cd("/")'), person);
    expect(tableOf(one, "/jail")).toContain('itx ⇒ itx.cd("/")');
  });

  it("may be made narrower by code", async () => {
    await jail();
    await append(one, "/jail", rule("itx.append", null), codeOf("/jail"));
    await expect(append(one, "/jail", {}, codeOf("/jail"))).rejects.toMatchObject(masked);
  });
});

describe("a paused context", () => {
  it("takes the rule of a handle that is let go away once it is resumed", async () => {
    await append(one, "/a", rule("itx.db", "itx.kv"), person);
    await append(one, "/a", { type: itx.paused.type, payload: {} }, person);
    await expect(append(one, "/a", rule("itx.db", null), person)).rejects.toMatchObject({ code: "STREAM_PAUSED" });
    await append(one, "/a", rule("itx.db", null, { ifTarget: "itx.kv" }), person);
    expect(tableOf(one, "/a")).toEqual(["itx.db ⇒ itx.kv"]);
    await append(other, "/a", { type: itx.resumed.type, payload: {} }, person);
    expect(tableOf(other, "/a")).toEqual([]);
  });
});

describe("what rules cost", () => {
  const statements = async (work: () => Promise<unknown>): Promise<Record<string, number>> => {
    statementCounts.clear();
    await work();
    return Object.fromEntries(statementCounts);
  };

  it("is nothing for people and the platform, nor for code in its own context", async () => {
    for (const writer of [codeOf("/a"), person, service]) await append(one, "/a", {}, writer);
    expect(await statements(() => append(one, "/a", {}, service))).toEqual({ commit: 1 });
    expect(await statements(() => append(one, "/a", {}, codeOf("/a")))).toEqual(
      await statements(() => append(one, "/a", {}, person)),
    );
  });

  it("is one look at the context that code runs in for its appends of one turn to others", async () => {
    for (const path of ["/", "/a", "/b", "/c"]) await append(one, path, {}, service);
    await append(one, "/b", {}, codeOf("/a"));
    await append(one, "/c", {}, codeOf("/a"));
    const counts = await statements(() =>
      Promise.all([append(one, "/b", {}, codeOf("/a")), append(one, "/c", {}, codeOf("/a")), append(one, "/b", {}, codeOf("/a"))]),
    );
    expect(counts["last_commits"]).toBe(1);
    expect(counts["load_heads"]).toBeUndefined();
  });
});
