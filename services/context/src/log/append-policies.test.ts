import { newId } from "@iterate-platform/service/ids";
import { useTestDatabase } from "@iterate-platform/testing";
import { itx } from "iterate/events";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Writer } from "../caller/contract.js";
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

const append = (engine: TestEngine, path: string, fields: EventFields, writer: Writer) =>
  engine.append(path, [fields], { address: { owner, path }, writer: writer.owner === null ? writer : { ...writer, owner } });
const configure = (engine: TestEngine, rules: unknown, writer = person) =>
  append(engine, "/", { type: itx.appendPolicyConfigured.type, payload: { rules } }, writer);
const agents = code({ origin: "/agents/a" });
const orders: EventFields = { type: "sales/order-placed" };
const nobody = [{ types: ["sales/*"], paths: ["/orders", "/orders/*"], origins: [] }];

describe("a policy", () => {
  it("holds for every context of its project as soon as it is acknowledged, through every process", async () => {
    for (const engine of [one, other]) await append(engine, "/orders", orders, agents);
    for (let round = 0; round < 20; round += 1) {
      const [writing, judging] = round % 2 === 0 ? [one, other] : [other, one];
      await configure(writing, nobody);
      await expect(append(judging, "/orders/1", orders, agents)).rejects.toMatchObject({
        code: "FORBIDDEN",
        data: { rule: 0, origin: "/agents/a", type: "sales/order-placed", path: "/orders/1" },
      });
      await configure(writing, null);
      await expect(append(judging, "/orders/1", orders, agents)).resolves.toHaveLength(1);
    }
  });

  it("holds for the root itself, for people and for events that are not stored", async () => {
    await configure(one, [{ types: ["*"], paths: ["*"], origins: ["/trusted"] }]);
    await expect(append(one, "/", orders, agents)).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(append(one, "/a", orders, person)).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(append(one, "/a", { ...orders, ephemeral: true }, agents)).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(append(one, "/a", orders, code({ origin: "/trusted" }))).resolves.toHaveLength(1);
  });

  it("holds for an event that is not stored beside one that is stored already, whose append commits nothing", async () => {
    const known: EventFields = { type: "test/known", idempotencyKey: "K" };
    const fields = { address: { owner, path: "/orders" }, writer: { ...agents, owner } };
    const both = () => one.append("/orders", [known, { ...orders, ephemeral: true }], fields);
    // What it remembers of the root admits the second one too.
    await configure(one, null);
    await expect(both()).resolves.toHaveLength(2);
    await configure(other, nobody);
    // The refusal of the first has the keys of both looked up, so that no statement is sent that would prove the root.
    const [refused, forbidden] = await Promise.allSettled([one.append("/orders", [{ offset: 999 }], fields), both()]);
    expect(refused).toMatchObject({ status: "rejected", reason: { code: "OFFSET_CONFLICT" } });
    expect(forbidden).toMatchObject({ status: "rejected", reason: { code: "FORBIDDEN" } });
  });

  it("refuses the batch of which one event is refused, and takes the offsets of none", async () => {
    await configure(one, nobody);
    const both = one.append("/orders", [{}, orders], { address: { owner, path: "/orders" }, writer: { ...agents, owner } });
    await expect(both).rejects.toMatchObject({ code: "FORBIDDEN" });
    expect((await append(one, "/orders", {}, agents))[0]).toMatchObject({ offset: 2 });
  });

  it("does not bind the platform, other projects, or people who change it", async () => {
    await configure(one, [{ types: ["*"], paths: ["*"], origins: [] }]);
    await expect(append(one, "/a", orders, service)).resolves.toHaveLength(1);
    await expect(append(one, "/a", orders, code({ isPlatform: true }))).resolves.toHaveLength(1);
    const elsewhere = { owner: newId("prj"), path: "/a" };
    await expect(one.append("/a", [orders], { address: elsewhere, writer: person })).resolves.toHaveLength(1);
    await expect(configure(one, null, agents)).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(configure(one, null)).resolves.toHaveLength(1);
    await expect(append(one, "/a", orders, agents)).resolves.toHaveLength(1);
  });

  it("is configured in the root of a project alone, in its declared form", async () => {
    const configured = (rules: unknown): EventFields => ({ type: itx.appendPolicyConfigured.type, payload: { rules } });
    await expect(append(one, "/a", configured(null), person)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    const global = one.append("/", [configured(null)], { address: { owner: "global", path: "/" }, writer: service });
    await expect(global).rejects.toMatchObject({ code: "INVALID_INPUT" });
    const rule = nobody[0]!;
    for (const rules of [
      undefined,
      "all",
      [{ ...rule, unless: [] }],
      [{ ...rule, types: [] }],
      [{ ...rule, paths: ["/a/*/b"] }],
      [{ ...rule, origins: [""] }],
      [{ ...rule, origins: Array.from({ length: 101 }, () => "/a") }],
      Array.from({ length: 101 }, () => rule),
    ])
      await expect(configure(one, rules)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(
      configure(
        one,
        Array.from({ length: 100 }, () => rule),
      ),
    ).resolves.toHaveLength(1);
  });
});

describe("what a policy costs", () => {
  const ownCode = code({ origin: "/a" });
  const statements = async (work: () => Promise<unknown>): Promise<Record<string, number>> => {
    statementCounts.clear();
    await work();
    return Object.fromEntries(statementCounts);
  };

  it("is a condition of the commit that any append needs", async () => {
    await configure(one, null);
    for (const writer of [ownCode, service]) await append(one, "/a", {}, writer);
    expect(await statements(() => append(one, "/a", {}, service))).toEqual({ commit: 1 });
    expect(await statements(() => append(one, "/a", {}, ownCode))).toEqual({ commit_guard_one: 1 });
  });

  it("is one look at the root for events that no commit stores", async () => {
    await configure(one, null);
    await append(one, "/a", { ephemeral: true }, ownCode);
    expect(await statements(() => append(one, "/a", { ephemeral: true }, ownCode))).toEqual({ last_commits: 1 });
  });

  it("is shared by the appends of one turn", async () => {
    await configure(one, null);
    const paths = Array.from({ length: 100 }, (_, at) => `/many/${at}`);
    await Promise.all(paths.map((path) => append(one, path, {}, agents)));
    const unstored = { ephemeral: true };
    await Promise.all(paths.map((path) => append(one, path, unstored, agents)));
    const sent = await statements(() => Promise.all(paths.map((path) => append(one, path, unstored, agents))));
    expect(sent["last_commits"]).toBe(1);
  });
});
