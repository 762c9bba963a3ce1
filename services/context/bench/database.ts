/** A scratch database of the bench with durable commits, and the raw baseline: the same rows by 4 connections of 500-row inserts. */
import { randomBytes } from "node:crypto";
import { migrate } from "@iterate-platform/service/migrations";
import { uuidv7 } from "@iterate-platform/service/ids";
import { fileURLToPath } from "node:url";
import pg from "pg";

/** From the sources, or from the bundle in `dist/bench`. */
const migrationsDir = fileURLToPath(
  new URL(import.meta.url.includes("/dist/bench/") ? "../../migrations" : "../migrations", import.meta.url),
);

export interface BenchDatabase {
  readonly url: string;
  drop(): Promise<void>;
}

/** A migrated database on the server at `adminUrl`. */
export async function makeDatabase(adminUrl: string): Promise<BenchDatabase> {
  const name = `bench_${randomBytes(6).toString("hex")}`;
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  await admin(adminUrl, `create database ${name} template template0`);
  await migrate({ url: url.href, dir: migrationsDir });
  return { url: url.href, drop: () => admin(adminUrl, `drop database if exists ${name} with (force)`) };
}

async function admin(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(text);
  await client.end();
}

const rawText = `insert into event (context_id, "offset", type, format_version, is_control, append_id, idempotency_key, body_digest, source, payload)
  select * from unnest($1::bigint[], $2::bigint[], $3::integer[], $4::smallint[], $5::boolean[], $6::uuid[], $7::text[], $8::bytea[], $9::text[], $10::text[])`;

export interface RawOptions {
  readonly url: string;
  readonly contexts: number;
  readonly payload: string;
  readonly source: string;
  readonly hasKeys: boolean;
  readonly durationMs: number;
}

/** Rows per second of plain `pg` arrays: what the database gives to a client that wants nothing but rows. */
export async function rawRowsPerSecond({ url, contexts, payload, source, hasKeys, durationMs }: RawOptions): Promise<number> {
  const base = 2 ** 46 + Math.floor(Math.random() * 2 ** 40) * 4_096;
  let next = 0;
  let rows = 0;
  const end = performance.now() + durationMs;
  const worker = async (): Promise<void> => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    while (performance.now() < end) {
      const columns: unknown[][] = Array.from({ length: 10 }, () => []);
      for (let row = 0; row < 500; row += 1) {
        const n = next++;
        const values = [
          base + (n % contexts),
          Math.floor(n / contexts) + 1,
          1,
          1,
          false,
          uuidv7(),
          hasKeys ? `key-${n}` : null,
          hasKeys ? digest : null,
          source,
          payload,
        ];
        values.forEach((value, column) => columns[column]!.push(value));
      }
      await client.query({ name: "raw", text: rawText, values: columns });
      rows += 500;
    }
    await client.end();
  };
  const start = performance.now();
  await Promise.all([worker(), worker(), worker(), worker()]);
  return rows / ((performance.now() - start) / 1000);
}

const digest = randomBytes(32);

/** Median time of one prepared insert of one row on one connection. */
export async function bareInsertP50Ms(url: string, payload: string, source: string, durationMs: number): Promise<number> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const base = 2 ** 46 + Math.floor(Math.random() * 2 ** 40) * 4_096;
  const text = `insert into event (context_id, "offset", type, format_version, is_control, append_id, source, payload) values ($1, $2, 1, 1, false, $3, $4, $5)`;
  const times: number[] = [];
  const end = performance.now() + durationMs;
  for (let n = 0; performance.now() < end; n += 1) {
    const start = performance.now();
    await client.query({ name: "bare", text, values: [base + (n % 256), Math.floor(n / 256) + 1, uuidv7(), source, payload] });
    times.push(performance.now() - start);
  }
  await client.end();
  times.sort((one, other) => one - other);
  return times[Math.floor(times.length / 2)]!;
}
