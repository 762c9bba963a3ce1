import { fileURLToPath } from "node:url";
import { migrate } from "@iterate-platform/service/migrations";
import { useTestDatabase } from "@iterate-platform/testing";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { maxSecretBytes, minSecretBytes, WebhookEndpoints } from "./endpoints.js";

const database = useTestDatabase();
let pool: Pool;
const sealed = new Map<string, string>();
let endpoints: WebhookEndpoints;

beforeAll(async () => {
  pool = createPool({ url: database.url, applicationName: "test", max: 4 });
  await migrate({ url: database.url, dir: fileURLToPath(new URL("../../migrations", import.meta.url)) });
  await pool.query("insert into project (id, slug, created_by) values ('prj_a', 'a', 'admin'), ('prj_b', 'b', 'admin')");
  endpoints = new WebhookEndpoints(pool, async (owner, path, material) => {
    sealed.set(`${owner} ${path}`, Buffer.from(material).toString());
  });
});

afterAll(async () => {
  await pool.end();
});

test("an endpoint gets an unguessable id and a secret that is answered once", async () => {
  const { endpoint, generatedSecret } = await endpoints.create("prj_a", "github", "main", null);
  expect(endpoint.id).toMatch(/^[0-9a-f]{32}$/);
  expect(sealed.get(`prj_a ${endpoint.secretPath}`)).toBe(generatedSecret);
  expect(await endpoints.find(endpoint.id)).toEqual(endpoint);
  expect(JSON.stringify(await endpoints.list("prj_a"))).not.toContain(generatedSecret);
});

test("a name is taken once in a project and provider, and free in another project", async () => {
  await endpoints.create("prj_a", "github", "twice", null);
  const before = await endpoints.list("prj_a");
  await expect(endpoints.create("prj_a", "github", "twice", null)).rejects.toMatchObject({ code: "ALREADY_EXISTS" });
  expect(await endpoints.list("prj_a")).toEqual(before);
  await expect(endpoints.create("prj_b", "github", "twice", null)).resolves.toBeDefined();
});

test("a secret of the caller's is kept and not answered; its length is bounded", async () => {
  for (const [length, taken] of [
    [minSecretBytes - 1, false],
    [minSecretBytes, true],
    [minSecretBytes + 1, true],
    [maxSecretBytes - 1, true],
    [maxSecretBytes, true],
    [maxSecretBytes + 1, false],
  ] as const) {
    const made = endpoints.create("prj_b", "github", `length-${length}`, Buffer.alloc(length, "s"));
    if (taken) await expect(made).resolves.toMatchObject({ generatedSecret: null });
    else await expect(made).rejects.toMatchObject({ code: "INVALID_INPUT" });
  }
});

test.for(["", "../x", "0".repeat(32), "F".repeat(32)])("the id %j finds nothing", async (id) => {
  expect(await endpoints.find(id)).toBeNull();
});

test("a burst to one endpoint is one look-up, and an id that is not there is looked for again", async () => {
  const { endpoint } = await endpoints.create("prj_b", "github", "burst", null);
  const query = vi.spyOn(pool, "query");
  const found = await Promise.all(Array.from({ length: 100 }, () => endpoints.find(endpoint.id)));
  expect(new Set(found.map((one) => one?.id))).toEqual(new Set([endpoint.id]));
  expect(query).toHaveBeenCalledTimes(1);
  const absent = "f".repeat(32);
  expect([await endpoints.find(absent), await endpoints.find(absent)]).toEqual([null, null]);
  expect(query).toHaveBeenCalledTimes(3);
  query.mockRestore();
});
