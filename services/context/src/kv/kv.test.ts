/** Values by key, on a real database: what is kept, what is compared, and each bound at −1, 0 and +1. */
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { migrateLog, person } from "../log/engine.fixture.js";
import { unborn } from "../log/head-cache.js";
import { PostgresKvStore } from "../log/postgres/postgres-kv-store.js";
import { kvLimits } from "./contract.js";
import { Kv } from "./kv.js";

const database = useTestDatabase();
let pool: Pool;
let kv: Kv;
let contexts = 0;

beforeAll(async () => {
  await migrateLog(database.url);
  pool = createPool({ url: database.url, applicationName: "kv-test", max: 4 });
  const store = new PostgresKvStore(pool);
  kv = new Kv({
    heads: {
      confirm: async (address) =>
        address.path === "/unborn" ? undefined : { ...unborn(address), contextId: Number(address.path.slice(1)), commitNo: 1 },
    },
    storeOf: () => store,
  });
});

afterAll(() => pool?.end());

/** A context nobody has kept anything in. */
const context = () => ({ owner: "prj_00000000000000000000000000", path: `/${(contexts += 1)}` });

/** Says that a context holds this much already. */
const holding = async (path: string, keys: number, bytes: number): Promise<void> => {
  await pool.query("insert into kv_total (context_id, keys, bytes) values ($1, $2, $3)", [Number(path.slice(1)), keys, bytes]);
};

describe("values by key", () => {
  test("are answered as they were put, and are gone once deleted", async () => {
    const at = context();
    expect(await kv.get(at, "k")).toBeNull();
    const { version } = await kv.put(at, person, "k", { a: [1, null, "x"] }, undefined);
    expect(await kv.get(at, "k")).toEqual({ value: { a: [1, null, "x"] }, version });
    expect(await kv.remove(at, person, "k", undefined)).toEqual({ deleted: true });
    expect(await kv.remove(at, person, "k", undefined)).toEqual({ deleted: false });
    expect(await kv.get(at, "k")).toBeNull();
  });

  test("are changed only if they have the version named, and no version comes twice", async () => {
    const at = context();
    const first = await kv.put(at, person, "k", 1, 0);
    await expect(kv.put(at, person, "k", 2, 0)).rejects.toMatchObject({
      code: "VERSION_CONFLICT",
      data: { version: first.version },
    });
    const second = await kv.put(at, person, "k", 2, first.version);
    expect(second.version).toBeGreaterThan(first.version);
    await expect(kv.remove(at, person, "k", first.version)).rejects.toMatchObject({ code: "VERSION_CONFLICT" });
    await kv.remove(at, person, "k", second.version);
    await expect(kv.put(at, person, "k", 3, second.version)).rejects.toMatchObject({
      code: "VERSION_CONFLICT",
      data: { version: 0 },
    });
    expect((await kv.put(at, person, "k", 3, 0)).version).toBeGreaterThan(second.version);
  });

  test("of many who change one at once, one wins each version", async () => {
    const at = context();
    const { version } = await kv.put(at, person, "k", 0, 0);
    const changes = await Promise.allSettled(Array.from({ length: 8 }, (_, at2) => kv.put(at, person, "k", at2, version)));
    expect(changes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  });

  test("are listed by key, from a prefix, page by page", async () => {
    const at = context();
    for (const key of ["b", "a/2", "a/1", "a/3", "ä", "a%"]) await kv.put(at, person, key, key, undefined);
    const page = await kv.list(at, { prefix: "a/", limit: 2 });
    expect(page).toMatchObject({ entries: [{ key: "a/1", bytes: 8 }, { key: "a/2" }], next: "a/2" });
    expect(await kv.list(at, { prefix: "a/", limit: 2, after: page.next! })).toMatchObject({
      entries: [{ key: "a/3" }],
      next: null,
    });
    expect((await kv.list(at, {})).entries.map(({ key }) => key)).toEqual(["a%", "a/1", "a/2", "a/3", "b", "ä"]);
  });

  test("in a context that is not born there are none, and none can be put", async () => {
    const at = { ...context(), path: "/unborn" };
    expect(await kv.get(at, "k")).toBeNull();
    expect(await kv.list(at, {})).toEqual({ entries: [], next: null });
    await expect(kv.put(at, person, "k", 1, undefined)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});

describe("bounds", () => {
  test("a key has 1 to 512 bytes, without NUL or lone surrogate", async () => {
    const at = context();
    const long = "é".repeat(kvLimits.keyBytes / 2);
    for (const key of ["k", long.slice(1), long]) await kv.put(at, person, key, 1, undefined);
    for (const key of ["", `${long}k`, "a\0b", "a\ud800"])
      await expect(kv.put(at, person, key, 1, undefined)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(kv.get(at, "")).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });

  test("a value has at most 1 MiB of JSON", async () => {
    const at = context();
    const text = (bytes: number): string => "x".repeat(bytes - 2);
    for (const bytes of [kvLimits.valueBytes - 1, kvLimits.valueBytes]) await kv.put(at, person, "k", text(bytes), undefined);
    await expect(kv.put(at, person, "k", text(kvLimits.valueBytes + 1), undefined)).rejects.toMatchObject({ code: "KV_LIMIT" });
  });

  test("a context holds at most 10,000 keys; what it holds can still be changed and deleted", async () => {
    const at = context();
    await holding(at.path, kvLimits.keys - 2, 0);
    await kv.put(at, person, "a", 1, undefined);
    await kv.put(at, person, "b", 1, undefined);
    await expect(kv.put(at, person, "c", 1, undefined)).rejects.toMatchObject({ code: "KV_LIMIT", data: { of: "keys" } });
    await kv.put(at, person, "b", 2, undefined);
    await kv.remove(at, person, "a", undefined);
    await kv.put(at, person, "c", 1, undefined);
  });

  test("a context holds at most 64 MiB of keys and values; a smaller value always fits in a place", async () => {
    const at = context();
    await holding(at.path, 0, kvLimits.totalBytes - 4);
    await kv.put(at, person, "k", 11, undefined);
    await kv.put(at, person, "k", 111, undefined);
    await expect(kv.put(at, person, "k", 1111, undefined)).rejects.toMatchObject({ code: "KV_LIMIT", data: { of: "bytes" } });
    await expect(kv.put(at, person, "m", 1, undefined)).rejects.toMatchObject({ code: "KV_LIMIT", data: { of: "bytes" } });
    await kv.put(at, person, "k", 1, undefined);
  });

  test("a chain of reactions that is too deep changes nothing", async () => {
    const at = context();
    const deep = { ...person, cause: { ...person.cause, depth: 9 } };
    await expect(kv.put(at, deep, "k", 1, undefined)).rejects.toMatchObject({ code: "LOOP_LIMIT" });
    await expect(kv.remove(at, deep, "k", undefined)).rejects.toMatchObject({ code: "LOOP_LIMIT" });
    expect(await kv.get(at, "k")).toBeNull();
  });
});
