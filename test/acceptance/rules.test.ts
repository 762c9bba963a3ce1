/** Rules, jails and the wall around code, over gRPC, by processes of the service on a real database and broker. */
import { newId } from "@iterate-platform/service/ids";
import { itx } from "iterate/events";
import { beforeEach, describe, expect, test } from "vitest";
import { Calls } from "./invoke.fixture.js";
import { codeOf, person, platform, useLogService, type Caller, type Context, type EventFields } from "./log-service.fixture.js";

const service = useLogService();
const calls = new Calls(service);
const call = calls.value.bind(calls);

/** A project of its own for each test, and a context of it. */
let root: Context;
let child: Context;
beforeEach(() => {
  root = { owner: newId("prj"), path: "/" };
  child = { owner: root.owner, path: "/agents/a" };
});

const ruleOf = (match: unknown, target: unknown, more: object = {}): EventFields => ({
  type: itx.rewriteRuleConfigured.type,
  payload: { match, target, ...more },
});
const provide = (context: Context, match: unknown, target: unknown, more: object = {}, caller: Caller = person) =>
  service.append(context, [ruleOf(match, target, more)], caller);
const letGo = (context: Context, match: string, ifTarget: string) => provide(context, match, null, { ifTarget });

/** The table as text, `match ⇒ target`. */
async function tableOf(context: Context): Promise<string[]> {
  const { rules } = await service.as(person).describeContext({ context, includeRules: true });
  return rules.map(({ match, target }) => `${match} ⇒ ${target ?? "null"}`);
}

const noMatch = expect.objectContaining({ code: "NO_ITX_EXPRESSION_MATCH" }) as object;
const forbidden = expect.objectContaining({ code: "FORBIDDEN" }) as object;
const invalid = expect.objectContaining({ code: "INVALID_INPUT" }) as object;

async function remember(values: Readonly<Record<string, unknown>>): Promise<void> {
  await service.append(root, [{}]);
  for (const [key, value] of Object.entries(values)) await call(root, ["itx", "kv", ["put", key, value]]);
}
const payloadsOf = async (context: Context, type: string): Promise<unknown[]> =>
  (await service.read(context, 0, { types: [type] })).events.map(({ payload }) => payload);

describe("what a call stands for", () => {
  test("[iterate-27] a call is rewritten by the rule that its beginning matches", async () => {
    await remember({ k: 7 });
    await provide(root, "itx.db", "itx.kv");
    expect(await call(root, "itx.db.get('k').value")).toBe(7);
    await call(root, "itx.db.put('l', 8)");
    expect(await call(root, "itx.kv.get('l').value")).toBe(8);
    await expect(call(root, "itx.dbs.get('k')")).rejects.toEqual(noMatch);
  });

  test("[iterate-28] of two rules the one that pins more arguments wins, and one that pins another argument does not match", async () => {
    await remember({ one: "by one", two: "by two", x: "by name" });
    await provide(root, "itx.pick", "itx.kv.get");
    await provide(root, "itx.pick('m')", "itx.kv.get('one')");
    await provide(root, "itx.pick('m', {n: 2, o: [1]})", "itx.kv.get('two')");
    expect(await call(root, "itx.pick('m').value")).toBe("by one");
    expect(await call(root, "itx.pick('m', {o: [1], n: 2}).value")).toBe("by two");
    expect(await call(root, "itx.pick('x').value")).toBe("by name");
  });

  test("[iterate-29] @ takes all arguments, @ inside one takes the only one, {...@} fills up what the rule says", async () => {
    await provide(root, "itx.write", "itx.append(@)");
    await call(root, "itx.write({type: 'acme/a', payload: 1}, {type: 'acme/a', payload: 2})");
    expect(await payloadsOf(root, "acme/a")).toEqual([1, 2]);

    await provide(root, "itx.say", "itx.append({type: 'acme/said', payload: {words: @, by: @caller}})");
    await call(root, "itx.say('hello')");
    await expect(call(root, "itx.say('one', 'two')")).rejects.toEqual(invalid);
    await expect(call(root, "itx.say()")).rejects.toEqual(invalid);
    expect(await payloadsOf(root, "acme/said")).toEqual([{ words: "hello", by: "/" }]);

    await provide(root, "itx.note", "itx.append({...@, type: 'acme/noted'})");
    await call(root, "itx.note({type: 'acme/other', payload: 'kept'})");
    await expect(call(root, "itx.note('no object')")).rejects.toEqual(invalid);
    expect(await payloadsOf(root, "acme/noted")).toEqual(["kept"]);
  });

  test("[iterate-30] a call goes through 31 rules, and not through 32 nor in a circle", async () => {
    const chain = (length: number) =>
      Array.from({ length }, (_, at) => ruleOf(`itx.r${at}`, at === length - 1 ? "itx.builtins.whoami" : `itx.r${at + 1}`));
    await service.append(root, chain(31));
    expect(await call(root, "itx.r0().path")).toBe("/");
    await service.append(root, chain(32));
    await expect(call(root, "itx.r0()")).rejects.toEqual(noMatch);
    expect(await call(root, "itx.r1().path")).toBe("/");
    await provide(root, "itx.self", "itx.self");
    await expect(call(root, "itx.self()")).rejects.toEqual(noMatch);
  });

  test("[iterate-31] a context with a link to another asks that one for what it does not answer itself", async () => {
    await remember({ k: "at the root" });
    await provide(child, "itx", "itx.cd('/')");
    expect(await call(child, "itx.kv.get('k').value")).toBe("at the root");
    await call(child, "itx.append({type: 'acme/stays'})");
    expect(await payloadsOf(child, "acme/stays")).toHaveLength(1);
    expect(await payloadsOf(root, "acme/stays")).toHaveLength(0);
    expect(await call(child, "itx.whoami().path")).toBe(child.path);
    await provide(root, "itx.asks", "itx.append({type: 'acme/asked', payload: {by: @caller}}, @)");
    await call(child, "itx.asks()");
    expect(await payloadsOf(root, "acme/asked")).toEqual([{ by: child.path }]);
  });

  test("[iterate-32] a null for itx masks every short name, until one is granted", async () => {
    await provide(child, "itx", null);
    for (const expression of ["itx.whoami()", "itx.append({type: 'acme/a'})", "itx.cd('/').whoami()", "itx.nothing"])
      await expect(call(child, expression)).rejects.toEqual(noMatch);
    await provide(child, "itx.append", "itx.builtins.append");
    await call(child, "itx.append({type: 'acme/a'})");
    await expect(call(child, "itx.whoami()")).rejects.toEqual(noMatch);
    expect(await tableOf(child)).toEqual(["itx ⇒ null", "itx.append ⇒ itx.builtins.append"]);
  });
});

describe("the table", () => {
  test("[iterate-33] a null where nothing would answer is not kept", async () => {
    for (const context of [root, child]) {
      await provide(context, "itx.nothing", null);
      expect(await tableOf(context)).toEqual([]);
      await provide(context, "itx.something", "itx.whoami");
      await provide(context, "itx.something", null);
      expect(await tableOf(context)).toEqual([]);
    }
    await provide(root, "itx.kv", null);
    expect(await tableOf(root)).toEqual(["itx.kv ⇒ null"]);
  });

  test("[iterate-34] a rule that says what is so anyway takes the row away, and changes nothing where there is none", async () => {
    await provide(root, "itx.kv", "itx.builtins.kv");
    expect(await tableOf(root)).toEqual([]);
    await provide(root, "itx.kv", null);
    await provide(root, "itx.kv", "itx.builtins.kv");
    expect(await tableOf(root)).toEqual([]);
    await provide(root, "itx.db", "itx.kv");
    const before = await service.as(person).describeContext({ context: root, includeRules: true });
    await provide(root, ["itx", "db"], ["itx", "kv"]);
    const after = await service.as(person).describeContext({ context: root, includeRules: true });
    expect(after.rules).toEqual(before.rules);
  });

  test("[iterate-35] a handle that is let go leaves the rule that another put in its place", async () => {
    await provide(child, "itx.db", "itx.live('a')");
    await provide(child, "itx.db", "itx.live('b')");
    await letGo(child, "itx.db", "itx.live('a')");
    expect(await tableOf(child)).toEqual(['itx.db ⇒ itx.live("b")']);
    await letGo(child, "itx.db", "itx.live('b')");
    expect(await tableOf(child)).toEqual([]);
  });

  test("[iterate-36] a handle that is let go while the context is paused keeps its rule until the resume", async () => {
    await provide(child, "itx.db", "itx.live('a')");
    await service.append(child, [{ type: itx.paused.type, payload: {} }]);
    await expect(provide(child, "itx.other", "itx.live('b')")).rejects.toMatchObject({ code: "STREAM_PAUSED" });
    await letGo(child, "itx.db", "itx.live('a')");
    expect(await tableOf(child)).toEqual(['itx.db ⇒ itx.live("a")']);
    await service.append(child, [{ type: itx.resumed.type, payload: {} }]);
    expect(await tableOf(child)).toEqual([]);
  });

  test("tells what each rule says about itself, and what it said at an earlier offset", async () => {
    const words = { description: "Settings", instructions: "Keys are user ids.", types: "export type Setting = string;" };
    const [set] = await provide(root, "itx.db", "itx.kv.get({...@}, @caller)", words);
    const [anew] = await provide(root, "itx.db", null);
    const at = (atOffset: number) =>
      service.as(person).describeContext({ context: root, includeRules: true, atOffset: BigInt(atOffset) });
    expect((await at(set!.offset)).rules).toEqual([
      { match: "itx.db", target: "itx.kv.get({...@}, @caller)", ...words, configuredAtOffset: BigInt(set!.offset) },
    ]);
    expect((await at(anew!.offset)).rules).toEqual([]);
    expect((await service.as(person).describeContext({ context: root, atOffset: BigInt(set!.offset) })).rules).toEqual([]);
  });

  test("[iterate-43] names that meet prototypes or are no names are refused, as rows of either table", async () => {
    for (const match of [
      "core",
      "itx.constructor",
      "itx.prototype.x",
      "itx.__proto__",
      "itx.a/b",
      ["itx", "constructor"],
      ["itx", ["__proto__"]],
    ])
      await expect(provide(child, match, "itx.kv")).rejects.toEqual(invalid);
    for (const name of ["core", "constructor", "prototype", "__proto__", "a/b"])
      await expect(
        service.append(child, [{ type: itx.subscriptionConfigured.type, payload: { name, target: "itx.config" } }]),
      ).rejects.toEqual(invalid);
    expect(await tableOf(child)).toEqual([]);
  });
});

describe("code", () => {
  const code = (): Caller => codeOf(child.path);

  test("[iterate-37] may not reach below itx.builtins: in calls, rules, subscriptions or schedules", async () => {
    await service.append(child, [{}]);
    const { offset } = await service.head(child);
    const builtin = "itx.builtins.kv";
    const rule = ruleOf("itx.db", builtin);
    const scheduled = (event: EventFields): EventFields => ({
      type: itx.scheduleSet.type,
      payload: { key: "k", when: { afterMs: 1 }, events: [{ type: event.type, payload: event.payload }] },
    });
    const subscription = { type: itx.subscriptionConfigured.type, payload: { name: "s", target: builtin } };
    for (const expression of [`${builtin}.get('k')`, "itx.cd('/').builtins.kv.get('k')"])
      await expect(call(child, expression, code())).rejects.toEqual(forbidden);
    for (const event of [rule, ruleOf("itx.db", ["itx", "builtins", "kv"]), subscription, scheduled(rule), scheduled(subscription)])
      await expect(service.append(child, [{}, event], code())).rejects.toEqual(forbidden);
    await expect(service.append(child, [ruleOf("itx.db", null, { ifTarget: "itx.kv" })], code())).rejects.toEqual(forbidden);
    expect((await service.head(child)).offset).toBe(offset);
    await provide(child, "itx.db", "itx.cd('/').kv", {}, code());
  });

  test("sets and takes away rules of its context, and names no target to take away", async () => {
    await call(child, "itx.provide('itx.db', 'itx.whoami')", code());
    expect(await call(child, "itx.db().path", code())).toBe(child.path);
    await expect(call(child, "itx.rewriteRules.remove('itx.db', {ifTarget: 'itx.whoami'})", code())).rejects.toEqual(forbidden);
    expect(await call(child, "itx.rewriteRules.remove('itx.db')", code())).toEqual({ removed: true });
    expect(await tableOf(child)).toEqual([]);
  });

  test("[iterate-41] may not use the platform's idempotency keys", async () => {
    await expect(service.append(child, [{ key: "itx/run-settled:9" }], code())).rejects.toEqual(forbidden);
    await expect(call(child, "itx.append({type: 'acme/a', idempotencyKey: 'itx/run-settled:9'})", code())).rejects.toEqual(
      forbidden,
    );
    expect((await service.head(child)).offset).toBe(0);
  });

  test("[iterate-39] in a jail appends nowhere, and code elsewhere not into it; a person does, by the fixed point", async () => {
    await provide(child, "itx", null);
    const other = { owner: root.owner, path: "/other" };
    for (const context of [child, root, other]) await expect(service.append(context, [{}], code())).rejects.toEqual(noMatch);
    for (const expression of ["itx.append({type: 'acme/a'})", "itx.cd('/').append({type: 'acme/a'})"])
      await expect(call(child, expression, code())).rejects.toEqual(noMatch);

    await expect(service.append(child, [{}], codeOf("/other"))).rejects.toEqual(noMatch);
    for (const caller of [person, codeOf("/other")])
      await expect(call(other, `itx.cd('${child.path}').append({type: 'acme/a'})`, caller)).rejects.toEqual(noMatch);

    await call(child, "itx.builtins.append({type: 'acme/a', payload: 1})");
    await service.append(child, [{ type: "acme/a", payload: 2 }], person);
    await service.append(child, [{ type: "acme/a", payload: 3 }], platform);
    expect(await payloadsOf(child, "acme/a")).toEqual([1, 2, 3]);
  });

  test("in a jail appends where a rule it was given leads, as that says, and not by itself", async () => {
    await provide(child, "itx", null);
    await provide(child, "itx.report", "itx.builtins.cd('/reports').append({...@, type: 'acme/reported'})");
    const reports = { owner: root.owner, path: "/reports" };
    await call(child, "itx.report({type: 'acme/other', payload: 1})", code());
    expect(await payloadsOf(reports, "acme/reported")).toEqual([1]);
    await expect(service.append(reports, [{ type: "acme/reported" }], code())).rejects.toEqual(noMatch);
    await provide(reports, "itx.append", null);
    await expect(call(child, "itx.report({payload: 2})", code())).rejects.toEqual(noMatch);
  });

  test("[iterate-40] with a grant in a jail appends, and does not open it; nor does a schedule", async () => {
    await provide(child, "itx", null);
    await provide(child, "itx.append", "itx.builtins.append");
    await service.append(child, [{ type: "acme/a" }], codeOf("/other"));
    await service.append(child, [{ type: "acme/a" }], code());
    await call(child, "itx.append({type: 'acme/a'})", code());
    expect(await payloadsOf(child, "acme/a")).toHaveLength(3);

    const open = ruleOf("itx", "itx.cd('/')");
    for (const caller of [code(), codeOf("/"), platform])
      await expect(service.append(child, [open], caller)).rejects.toEqual(forbidden);
    for (const [key, caller] of [
      ["by code", code()],
      ["by a person", person],
    ] as const) {
      await service.append(
        child,
        [
          {
            type: itx.scheduleSet.type,
            payload: { key, when: { afterMs: 0 }, events: [{ type: open.type, payload: open.payload }] },
          },
        ],
        caller,
      );
      const failed = await service.wait(child, [itx.scheduleFailed.type], { after: 0, payload: { key }, timeoutMs: 15_000 });
      expect(failed.payload).toMatchObject({ error: expect.stringContaining("only a person opens it") as string });
    }
    expect(await tableOf(child)).toEqual(["itx ⇒ null", "itx.append ⇒ itx.builtins.append"]);
    await provide(child, "itx", "itx.cd('/')");
    expect(await call(child, "itx.whoami().path", code())).toBe(child.path);
  });
});

test("[iterate-42] once a mask is acknowledged no context resolves the rule before it, through any process; a rule that is added answers at once", async () => {
  const wanted = process.env["LONG"] === "1" ? 100_000 : 10_000;
  const perRound = 1_000;
  const other = await service.startAnother();
  try {
    const clients = new Map(["ingress", "runner"].map((name) => [name, other.as(name).context]));
    const there = new Calls(service, ({ service: name }) => clients.get(name)!);
    const linked = Array.from({ length: 8 }, (_, at): Context => ({ owner: root.owner, path: `/linked/${at}` }));
    for (const context of linked) await provide(context, "itx", "itx.cd('/')");
    const ask = (at: number, where = there) => where.value(linked[at % linked.length]!, "itx.db().path");
    for (let asked = 0, round = 0; asked < wanted; asked += perRound, round += 1) {
      await provide(root, "itx.db", "itx.whoami");
      expect(await Promise.all([ask(round), ask(round, calls)])).toEqual(["/", "/"]);
      await provide(root, "itx.db", null);
      let next = 0;
      let resolved = 0;
      const asker = async (): Promise<void> => {
        while (next < perRound) {
          const at = next++;
          const answer = await ask(at).catch((error: unknown) => error);
          if (answer instanceof Error) expect(answer).toEqual(noMatch);
          else resolved += 1;
        }
      };
      await Promise.all(Array.from({ length: 64 }, asker));
      expect(resolved).toBe(0);
    }
  } finally {
    await other.stop();
  }
}, 600_000);
