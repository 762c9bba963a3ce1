/** Several processes, one database, no affinity: what holds however they race. */
import { uuidv7 } from "@iterate-platform/service/ids";
import { useTestDatabase } from "@iterate-platform/testing";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AppendReceipt } from "./contract.js";
import { address, migrateLog, startEngine, type TestEngine } from "./engine.fixture.js";

const database = useTestDatabase();
let engines: TestEngine[];

beforeAll(async () => {
  await migrateLog(database.url);
  engines = [startEngine({ url: database.url }), startEngine({ url: database.url, maxContexts: 2 })];
});
afterAll(() => Promise.all(engines.map((engine) => engine.close())));

interface Append {
  engine: number;
  context: number;
  /** A key for each event, or none. */
  keys: (string | null)[];
}

const append = fc.record({
  engine: fc.nat(1),
  context: fc.nat(2),
  keys: fc.array(fc.option(fc.constantFrom("a", "b", "c", "d"), { freq: 2 }), { minLength: 1, maxLength: 4 }),
});

let run = 0;

describe("two processes that append to the same contexts", () => {
  it("never give an offset twice or leave one out, land each key once, and keep each process's order", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(append, { minLength: 1, maxLength: 60 }), async (appends) => {
        const root = `/race/${(run += 1)}`;
        const answers = await Promise.all(
          appends.map(({ engine, context, keys }) =>
            engines[engine]!.append(
              `${root}/${context}`,
              keys.map((key) => (key === null ? { payload: 0 } : { payload: key, idempotencyKey: key })),
            ),
          ),
        );
        for (const context of [0, 1, 2]) await check(`${root}/${context}`, appends, answers, context);
      }),
      { numRuns: 25 },
    );
  });

  it("share 2,000 appends to one context without a gap, though most commits meet a rival", async () => {
    const path = "/race/hot";
    const answers = await Promise.all(
      Array.from({ length: 2_000 }, (_, index) => engines[index % 2]!.append(path, [{ payload: index }])),
    );
    const given = answers.flat().map(({ offset }) => offset);
    expect([...given].sort((one, other) => one - other)).toEqual(Array.from({ length: 2_000 }, (_, index) => index + 2));
    expect(engines.reduce((sum, { writer }) => sum + writer.counters.lostFences, 0)).toBeGreaterThan(0);
  });

  it("answer an append that is repeated through the other where it is, also when it expects the offset it took", async () => {
    const path = "/race/repeated";
    for (let n = 0; n < 10; n += 1) {
      const appendId = uuidv7();
      const [one, other] = n % 2 === 0 ? [engines[0]!, engines[1]!] : [engines[1]!, engines[0]!];
      const events = [{ payload: n, offset: n + 2 }];
      const first = await one.append(path, events, { appendId });
      expect(first).toMatchObject([{ offset: n + 2 }]);
      expect(await other.append(path, events, { appendId })).toEqual(first);
      expect(await one.append(path, events, { appendId })).toEqual(first);
    }
    await expect(engines[0]!.append(path, [{ offset: 3 }])).rejects.toMatchObject({ code: "OFFSET_CONFLICT" });
  });

  it("give birth to a context once", async () => {
    const paths = Array.from({ length: 40 }, (_, index) => `/race/born/${index}`);
    await Promise.all(paths.flatMap((path) => engines.map((engine) => engine.append(path, [{}]))));
    const { rows } = await engines[0]!.pool.query<{ contexts: number; ids: number; births: number }>(
      `select count(distinct path)::int as contexts, count(distinct context_id)::int as ids, count(*) filter (where "offset" = 1)::int as births
      from context join event using (context_id) where path like '/race/born/%'`,
    );
    expect(rows).toEqual([{ contexts: 40, ids: 40, births: 40 }]);
  });
});

async function check(
  path: string,
  appends: readonly Append[],
  answers: readonly (readonly AppendReceipt[])[],
  context: number,
): Promise<void> {
  const { pool } = engines[0]!;
  const { rows } = await pool.query<{ offset: number; key: string | null }>(
    'select "offset"::int as offset, idempotency_key as key from event join context using (context_id) where owner = $1 and path = $2 order by 1',
    [address(path).owner, path],
  );
  expect(rows.map(({ offset }) => offset)).toEqual(rows.map((_, index) => index + 1));
  const keyed = rows.filter(({ key }) => key !== null);
  expect(new Set(keyed.map(({ key }) => key)).size).toBe(keyed.length);
  const commits = await pool.query<{ no: number; first: number; last: number }>(
    "select commit_no::int as no, first_offset::int as first, last_offset::int as last from commit join context using (context_id) where owner = $1 and path = $2 order by 1",
    [address(path).owner, path],
  );
  expect(commits.rows.map(({ no }) => no)).toEqual(commits.rows.map((_, index) => index + 1));
  expect(commits.rows.map(({ first }) => first)).toEqual(
    [1, ...commits.rows.map(({ last }) => last + 1)].slice(0, commits.rows.length),
  );
  expect(commits.rows.at(-1)?.last ?? 0).toBe(rows.length);

  const byOffset = new Map(rows.map(({ offset, key }) => [offset, key]));
  const fresh: number[] = [];
  const lastOf = [0, 0];
  for (const [index, { engine, context: at, keys }] of appends.entries()) {
    if (at !== context) continue;
    const receipts = answers[index]!;
    expect(receipts.map(({ offset }) => byOffset.get(offset))).toEqual(keys);
    const own = receipts.filter(({ existing }) => !existing).map(({ offset }) => offset);
    // An append is one block, after what the same process appended before it.
    expect(own).toEqual(own.map((_, position) => own[0]! + position));
    if (own.length > 0) {
      expect(own[0]).toBeGreaterThan(lastOf[engine]!);
      lastOf[engine] = own.at(-1)!;
    }
    fresh.push(...own);
  }
  expect(fresh.sort((one, other) => one - other)).toEqual(rows.slice(1).map(({ offset }) => offset));
}
