import { createHmac, randomBytes } from "node:crypto";
import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { HeadConfirmer } from "../log/confirm.js";
import { address, migrateLog, service, startEngine, type TestEngine } from "../log/engine.fixture.js";
import { Keyring } from "./keyring.js";
import { Secrets } from "./secrets.js";

const database = useTestDatabase();
const keyring = Keyring.parse(JSON.stringify({ primary: "k1", keys: { k1: randomBytes(32).toString("base64") } }));
const clock = { ms: 0 };
let engines: TestEngine[] = [];
let one: Secrets;
let two: Secrets;
beforeAll(async () => {
  await migrateLog(database.url);
  engines = [startEngine({ url: database.url }), startEngine({ url: database.url })];
  [one, two] = engines.map(
    ({ appender, cache }) => new Secrets({ keyring, appender, heads: new HeadConfirmer(cache), nowMs: () => clock.ms }),
  ) as [Secrets, Secrets];
});
afterAll(async () => {
  one.close();
  two.close();
  await Promise.all(engines.map((engine) => engine.close()));
});

const payload = Buffer.from('{"a":1}');
const signed = (material: string): Buffer => createHmac("sha256", material).update(payload).digest();
const at = (name: string) => address(`/secrets/${name}`);
const set = (secrets: Secrets, name: string, material: string): Promise<number> =>
  secrets.set(at(name), Buffer.from(material), [], service, null);
const accepts = (secrets: Secrets, name: string, material: string): Promise<boolean> =>
  secrets.verify(at(name), "hmac-sha256", payload, signed(material));

test("a secret is used through every process from the moment it is set, and its former value no more", async () => {
  await expect(accepts(two, "rotated", "a")).rejects.toMatchObject({ code: "SECRET_NOT_SET" });
  for (let round = 0; round < 10; round += 1) {
    const [setter, verifier] = round % 2 === 0 ? [one, two] : [two, one];
    await set(setter, "rotated", `value-${round}`);
    for (const secrets of [verifier, setter]) {
      expect(await accepts(secrets, "rotated", `value-${round}`)).toBe(true);
      expect(await accepts(secrets, "rotated", `value-${round - 1}`)).toBe(false);
    }
  }
});

test("a secret is in no table in any spelling of its bytes", async () => {
  const material = `plain-${randomBytes(24).toString("hex")}`;
  await set(one, "hidden", material);
  expect(await accepts(two, "hidden", material)).toBe(true);
  const { pool } = engines[0]!;
  const { rows: tables } = await pool.query<{ name: string }>(
    "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema')",
  );
  expect(tables.length).toBeGreaterThan(30);
  let stored = "";
  for (const { name } of tables)
    stored +=
      (await pool.query<{ text: string | null }>(`select string_agg(t::text, E'\\n') as text from ${name} t`)).rows[0]!.text ?? "";
  expect(stored).toContain("/secrets/hidden");
  const bytes = Buffer.from(material);
  for (const spelling of [
    material,
    bytes.toString("hex"),
    bytes.toString("base64").slice(0, -2),
    bytes.toString("base64url").slice(0, -2),
  ])
    expect(stored).not.toContain(spelling);
});

test("an unsealed secret is let go after 60 s and opened again", async () => {
  await set(one, "cached", "a");
  await accepts(one, "cached", "a");
  const held = one.unsealed;
  clock.ms += 60_000;
  expect(await accepts(one, "cached", "a")).toBe(true);
  expect(one.unsealed).toBeLessThanOrEqual(held);
});

test("a secret of one context does not open in another, even when its fact is copied there", async () => {
  await set(one, "original", "a");
  const { rows } = await engines[0]!.pool.query<{ payload: string }>(
    `select payload from event where context_id = (select context_id from context where path = '/secrets/original') and is_control order by "offset" desc limit 1`,
  );
  await engines[0]!.append("/secrets/copy", [
    { type: "events.iterate.com/secret/set", payload: Buffer.from(rows[0]!.payload.replace("original", "copy")) },
  ]);
  await expect(accepts(one, "copy", "a")).rejects.toMatchObject({ code: "INTERNAL" });
});
