/** Rules as calls meet them, and descriptions as callers read them: over gRPC, by a process of the service on real stores. */
import { itx } from "iterate/events";
import { describe, expect, test } from "vitest";
import { CapabilityState } from "@iterate-platform/proto/iterate/context/v1/context";
import { vocabularyOfRoots } from "../../services/context/src/rules/roots.js";
import { Calls } from "./invoke.fixture.js";
import { codeOf, person, platform, useLogService, type Caller, type Context } from "./log-service.fixture.js";

const service = useLogService();
const calls = new Calls(service);
const call = calls.value.bind(calls);
const root = (): Context => ({ owner: service.owner, path: "/" });
const refusal = (code: string, message: RegExp): unknown =>
  expect.objectContaining({ code, message: expect.stringMatching(message) });

/** Appends the events of rules, as whoever may. */
async function rules(context: Context, table: Readonly<Record<string, string | null>>, caller: Caller = person): Promise<void> {
  await service.append(
    context,
    Object.entries(table).map(([match, target]) => ({ type: itx.rewriteRuleConfigured.type, payload: { match, target } })),
    caller,
  );
}

describe("calls through rules", () => {
  test("a call that cannot be right as a whole does nothing", async () => {
    const context = service.newContext();
    await expect(call(context, 'itx.append({type: "acme/made"}).first()')).rejects.toEqual(refusal("NOT_A_METHOD", /is data/));
    expect((await service.read(context)).events).toEqual([]);
  });

  test("@caller is the context a call started at, in whichever context the rule stands", async () => {
    const child = service.newContext("caller");
    await rules(root(), { "itx.whoCalls": 'itx.append({type: "acme/asked", payload: @caller})' });
    expect(await call(child, 'itx.cd("/").whoCalls')).toMatchObject([{ payload: child.path, path: "/" }]);
    expect(await call(root(), "itx.whoCalls", codeOf(child.path))).toMatchObject([{ payload: child.path }]);
  });

  test("rules are provided, resolved, and taken away only while they are what they were", async () => {
    const context = service.newContext();
    const given = { description: "The team's settings.", instructions: "Keys are user ids.", types: "type Key = string;" };
    const provided = await call(context, ["itx", ["provide", "itx.db", "itx.cd('/').kv", given]]);
    expect(provided).toEqual({ match: "itx.db", target: 'itx.cd("/").kv', configuredAtOffset: expect.any(Number) });
    expect(await call(context, "itx.rewriteRules.list()")).toEqual([{ ...(provided as object), ...given }]);
    expect(await call(context, "itx.rewriteRules.resolve(\"itx.db.get('k')\")")).toEqual({
      path: "/",
      expression: 'itx.builtins.kv.get("k")',
      via: [{ path: context.path, match: "itx.db", target: 'itx.cd("/").kv' }],
    });
    expect(await call(context, 'itx.rewriteRules.remove("itx.db", {ifTarget: "itx.other"})')).toEqual({ removed: false });
    expect(await call(context, "itx.rewriteRules.get('itx.db').description")).toBe(given.description);
    expect(await call(context, 'itx.rewriteRules.remove("itx.db", {ifTarget: "itx.cd(\'/\').kv"})')).toEqual({ removed: true });
    expect(await call(context, "itx.rewriteRules.list()")).toEqual([]);
    await expect(call(context, 'itx.provide("itx.x", "itx.builtins.kv")', codeOf(context.path))).rejects.toEqual(
      refusal("FORBIDDEN", /builtins/),
    );
  });
});

describe("what the platform itself reads", () => {
  test("a mask over every name, at the root and below, takes nothing from it", async () => {
    const project = { owner: "prj_0123456789abcdefghjkmnpqrs", path: "/" };
    const child = { ...project, path: "/child" };
    // A rule may not be about the handle's own methods; the one about everything covers them.
    const maskable = vocabularyOfRoots.names.filter((name) => name !== "provide");
    const masks = Object.fromEntries(["itx", ...maskable.map((name) => `itx.${name}`)].map((name) => [name, null]));
    for (const context of [project, child]) {
      await service.append(context, [{}]);
      await rules(context, masks);
      await expect(call(context, "itx.whoami()")).rejects.toEqual(refusal("NO_ITX_EXPRESSION_MATCH", /masks/));
      // What the runner, the bundler and ingress ask and write for themselves.
      const [receipt] = await service.append(context, [{ type: "acme/fact" }], platform);
      const { offset } = receipt!;
      expect((await service.read(context, offset - 1)).offsets).toEqual([offset]);
      expect((await service.wait(context, ["acme/fact"], { after: offset - 1 })).offset).toBe(offset);
      expect((await service.head(context)).offset).toBe(offset);
      await service.append(
        context,
        [{ type: itx.subscriptionConfigured.type, payload: { name: "delivered", target: ["itx", "config"] } }],
        platform,
      );
      const { subscriptions } = await service.as(platform).describeContext({ context, atOffset: undefined });
      expect(subscriptions.map(({ name }) => name)).toContain("delivered");
      await service.append(
        context,
        [
          {
            type: itx.subscriptionDeliveryHalted.type,
            payload: { name: "delivered", afterOffset: offset, attempts: 15, error: { code: "GONE", message: "gone" } },
          },
        ],
        platform,
      );
      const described = await service
        .as(person)
        .describe({ context, expression: undefined }, await service.optionsOf(person, context));
      expect(described.entries.every(({ state }) => state === CapabilityState.CAPABILITY_STATE_MASKED)).toBe(true);
      expect(await call(context, "itx.builtins.describe('itx.builtins.whoami').state")).toBe("bound");
    }
  });
});

describe("descriptions", () => {
  const describeText = async (context: Context, expression: string, caller: Caller = person): Promise<string> =>
    (await call(context, ["itx", ["describe", expression], "text"], caller)) as string;

  test("of a context: everything that answers there, each with what it is", async () => {
    const context = service.newContext();
    await service.append(context, [{}]);
    const { entries, state, text } = (await call(context, "itx.describe()")) as {
      entries: { expression: string; summary: string; state: string }[];
      state: string;
      text: string;
    };
    expect(state).toBe("bound");
    expect(entries.map(({ expression }) => expression)).toEqual(expect.arrayContaining(["itx.append", "itx.cd", "itx.describe"]));
    expect(entries.map(({ expression }) => expression)).not.toContain("itx.kv");
    for (const entry of entries) {
      expect(entry.summary).not.toBe("");
      expect(text).toContain(entry.expression);
    }
  });

  test("of a builtin, and through a rule, by the names it has there", async () => {
    const context = service.newContext();
    expect(await describeText(root(), "itx.kv.get")).toContain("itx.kv.get: (key: string) => Promise<KvEntry | null>");
    await call(context, ["itx", ["provide", "itx.db", "itx.cd('/').kv", { description: "The team's settings." }]]);
    const described = (await call(context, ["itx", ["describe", "itx.db"]])) as Record<string, unknown>;
    expect(described).toMatchObject({
      expression: "itx.db",
      state: "bound",
      summary: "The team's settings.",
      mayCall: true,
      standsFor: { path: "/", expression: "itx.builtins.kv" },
      rules: [{ path: context.path, match: "itx.db", target: 'itx.cd("/").kv', by: { principal: person.principal, origin: "/" } }],
    });
    expect((described["methods"] as { call: string; example: string }[])[0]).toMatchObject({
      call: "itx.db.get",
      example: 'itx.db.get("colour")',
    });
  });

  test("of what is masked, leads nowhere or may not be called: said, with the reason", async () => {
    const context = service.newContext();
    await rules(context, { "itx.whoami": null, "itx.lost": "itx.nowhere.at.all" });
    expect(await call(context, "itx.describe('itx.whoami')")).toMatchObject({ state: "masked", mayCall: false });
    expect(await call(context, "itx.describe('itx.lost')")).toMatchObject({
      state: "dangling",
      mayCall: false,
      refusal: { code: "NO_ITX_EXPRESSION_MATCH" },
    });
    expect(await call(context, "itx.describe('itx.builtins.append')", codeOf(context.path))).toMatchObject({
      mayCall: false,
      refusal: { code: "FORBIDDEN" },
    });
    await expect(call(context, "itx.describe('itx.apend')")).rejects.toEqual(
      refusal("NO_ITX_EXPRESSION_MATCH", /did you mean itx\.append\?/),
    );
    await expect(call(root(), "itx.describe('itx.kv.gte')")).rejects.toEqual(refusal("NOT_A_METHOD", /did you mean get\?/));
  });

  test("over gRPC the same is told as messages", async () => {
    const context = service.newContext();
    await call(context, ["itx", ["provide", "itx.db", "itx.cd('/').kv", {}]]);
    const expression = { form: { $case: "text" as const, value: "itx.db" } };
    const described = await service.as(person).describe({ context, expression }, await service.optionsOf(person, context));
    expect(described).toMatchObject({
      expression: "itx.db",
      state: CapabilityState.CAPABILITY_STATE_BOUND,
      refusalCode: "",
      rules: [{ match: "itx.db", by: { principal: person.principal } }],
    });
  });
});

describe("a reader that knows nothing but a description", () => {
  /** Composes a call of `name` from the declaration of an argument in a description's words alone; null when it finds none. */
  function composed(name: string, text: string): string | null {
    const method = new RegExp(`${name.replaceAll(".", "\\.")}: \\(order: (\\w+)\\)`).exec(text) ?? /\(order: (\w+)\) =>/.exec(text);
    const declared = method === null ? null : new RegExp(`interface ${method[1]} \\{([^}]*)\\}`).exec(text);
    if (declared === null) return null;
    const fields = [...declared[1]!.matchAll(/(\w+): (\w+);(?: \/\/ such as ("[^"]*"|\d+))?/g)].map(
      ([, field, , example]) => `${field}: ${example}`,
    );
    return `${name}({${fields.join(", ")}})`;
  }

  const words = {
    description: "Places an order with the kitchen.",
    instructions: "Call it once for each order; it answers the event that records it.",
    types: [
      "interface Order {",
      '  dish: string; // such as "soup"',
      "  count: number; // such as 2",
      "}",
      "type PlaceOrder = (order: Order) => Promise<StreamEvent[]>;",
    ].join("\n"),
  };
  const target = 'itx.builtins.append({type: "acme/ordered", payload: @})';

  test("composes a correct call of a capability it has never seen", async () => {
    const context = service.newContext();
    await call(context, ["itx", ["provide", "itx.kitchen.order", target, words]]);
    const text = (await call(context, "itx.describe('itx.kitchen.order').text", codeOf(context.path))) as string;
    expect(text).toContain(words.instructions);
    const written = composed("itx.kitchen.order", text);
    expect(written).toBe('itx.kitchen.order({dish: "soup", count: 2})');
    expect(await call(context, written!, codeOf(context.path))).toMatchObject([
      { type: "acme/ordered", payload: { dish: "soup", count: 2 } },
    ]);
    expect(await call(context, "itx.describe()")).toMatchObject({
      entries: expect.arrayContaining([{ expression: "itx.kitchen.order", summary: words.description, state: "bound" }]),
    });
  });

  test("composes none when nobody has described it", async () => {
    const context = service.newContext();
    await call(context, ["itx", ["provide", "itx.kitchen.order", target]]);
    const text = (await call(context, "itx.describe('itx.kitchen.order').text", codeOf(context.path))) as string;
    expect(composed("itx.kitchen.order", text)).toBeNull();
  });
});
