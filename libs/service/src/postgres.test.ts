import { isCodedError } from "iterate/lib";
import { eventually, FaultProxy, startPrivatePostgres, useTestDatabase } from "@iterate-platform/testing";
import pg from "pg";
import { afterEach, describe, expect, test } from "vitest";
import { createPool, retryableSqlState, sqlState, type Pool, type PoolOptions } from "./postgres.js";

const database = useTestDatabase();
const opened: { end(): Promise<unknown> }[] = [];
const proxies: FaultProxy[] = [];

function pool(options: Partial<PoolOptions> = {}): Pool {
  const made = createPool({ url: database.url, applicationName: "pool-test", max: 2, ...options });
  opened.push({ end: () => made.end(200) });
  return made;
}

async function proxied(): Promise<{ proxy: FaultProxy; url: string }> {
  const proxy = await FaultProxy.start(database.url);
  proxies.push(proxy);
  return { proxy, url: proxy.url(database.url) };
}

async function failure(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    () => expect.unreachable("it did not fail"),
    (error: unknown) => error,
  );
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const error = await failure(promise);
  if (!isCodedError(error)) throw error;
  return error.code;
}

async function setting(made: Pool, name: string): Promise<unknown> {
  return (await made.query<{ value: string }>("select current_setting($1) as value", [name])).rows[0]?.value;
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.end()));
  for (const proxy of proxies.splice(0)) proxy.stop();
});

describe("a session", () => {
  test("carries the bounds, the plan mode and the name of its service", async () => {
    const made = pool({ planCacheMode: "force_generic_plan" });
    expect(await setting(made, "statement_timeout")).toBe("5s");
    expect(await setting(made, "idle_in_transaction_session_timeout")).toBe("10s");
    expect(await setting(made, "plan_cache_mode")).toBe("force_generic_plan");
    expect(await setting(made, "application_name")).toBe("pool-test");
  });

  test("behind a pooler sets nothing and names no statement", async () => {
    const made = pool({ pooler: "transaction", max: 1, planCacheMode: "force_generic_plan" });
    expect(await setting(made, "statement_timeout")).toBe("0");
    await made.query({ name: "one", text: "select 1" });
    expect((await made.query("select name from pg_prepared_statements")).rows).toEqual([]);
  });

  test("keeps named statements prepared without a pooler", async () => {
    const made = pool({ max: 1 });
    await made.query({ name: "one", text: "select $1::int as n", values: [1] });
    expect((await made.query("select name from pg_prepared_statements")).rows).toEqual([{ name: "one" }]);
  });
});

describe("a refused statement", () => {
  test("comes out as Postgres reported it and costs no connection", async () => {
    const made = pool({ max: 1 });
    const pid = (await made.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]?.pid;
    await made.query("create table single (n int primary key)");
    await made.query("insert into single values (1)");
    const error = await failure(made.query("insert into single values (1)"));
    expect(sqlState(error)).toBe("23505");
    expect(error).toBeInstanceOf(pg.DatabaseError);
    expect((await made.query("select pg_backend_pid() as pid")).rows).toEqual([{ pid }]);
  });

  test("whose values cannot be encoded is the caller's own error", async () => {
    const circle: Record<string, unknown> = {};
    circle["self"] = circle;
    const made = pool({ max: 1 });
    expect(await failure(made.query("select $1::json", [circle]))).toBeInstanceOf(TypeError);
    expect((await made.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  });
});

describe("a bound", () => {
  test("ends a statement that takes longer than the server allows, as UNAVAILABLE", async () => {
    const made = pool({ statementTimeoutMs: 100 });
    const error = await failure(made.query("select pg_sleep(5)"));
    expect(error).toMatchObject({ code: "UNAVAILABLE", retryable: true, data: { sqlState: "57014" } });
  });

  test("ends the wait for a connection when all are busy", async () => {
    const made = pool({ max: 1, acquireTimeoutMs: 100 });
    const held = await made.connect();
    const start = performance.now();
    expect(await codeOf(made.query("select 1"))).toBe("UNAVAILABLE");
    expect(performance.now() - start).toBeLessThan(2_000);
    held.release();
    await made.query("select 1");
  });

  test.each([{ waiting: 1 }, { waiting: 2 }, { waiting: 3 }])("of 2 waiting callers: $waiting wait", async ({ waiting }) => {
    const made = pool({ max: 1, maxWaiting: 2 });
    const held = await made.connect();
    const outcomes = Array.from({ length: waiting }, () =>
      made.query("select 1").then(
        () => "answered",
        (error: { code: string }) => error.code,
      ),
    );
    await Promise.resolve();
    held.release();
    const expected = ["answered", "answered", "OVERLOADED"].slice(0, waiting);
    expect(await Promise.all(outcomes)).toEqual(expected);
  });

  test("ends the opening of a connection to a server that says nothing", async () => {
    const { proxy, url } = await proxied();
    proxy.drop();
    const start = performance.now();
    expect(await codeOf(pool({ url, acquireTimeoutMs: 200 }).query("select 1"))).toBe("UNAVAILABLE");
    expect(performance.now() - start).toBeLessThan(2_000);
  });

  test("ends a statement whose answer is swallowed, frees the place at once, and recovers", async () => {
    const { proxy, url } = await proxied();
    const made = pool({ url, max: 1, statementTimeoutMs: 100 });
    await made.query("select 1");
    proxy.drop();
    const start = performance.now();
    expect(await codeOf(made.query("select 2"))).toBe("UNAVAILABLE");
    expect(performance.now() - start).toBeLessThan(4_000);
    await proxy.heal();
    expect((await made.query("select 3 as n")).rows).toEqual([{ n: 3 }]);
  });
});

describe("a lost connection", () => {
  test("during a statement is UNAVAILABLE and the next statement gets another one", async () => {
    const { proxy, url } = await proxied();
    const made = pool({ url, max: 1 });
    await made.query("select 1");
    const running = codeOf(made.query("select pg_sleep(3)"));
    await eventually(() => proxy.connections === 1);
    proxy.reset();
    expect(await running).toBe("UNAVAILABLE");
    await made.query("select 1");
  });

  test("between the commit and its answer is UNAVAILABLE, and the row is there", async () => {
    const { proxy, url } = await proxied();
    const made = pool({ url, max: 1 });
    await made.query("create table committed (n int)");
    const cut = proxy.cutAtAnswer({ afterClientText: "insert into committed" });
    expect(await codeOf(made.query("insert into committed values (1)"))).toBe("UNAVAILABLE");
    await cut;
    expect((await made.query("select n from committed")).rows).toEqual([{ n: 1 }]);
  });

  test("while idle is replaced without anyone noticing", async () => {
    const { proxy, url } = await proxied();
    const made = pool({ url, max: 1 });
    await made.query("select 1");
    proxy.reset();
    await eventually(() => made.counts.open === 0);
    await made.query("select 1");
  });

  test("by an operator is UNAVAILABLE", async () => {
    const made = pool({ max: 2 });
    const held = await made.connect();
    const pid = (await held.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]?.pid;
    const running = failure(held.query("select pg_sleep(3)"));
    await eventually(async () => (await made.query("select pg_terminate_backend($1) as done", [pid])).rows[0]?.["done"] === true);
    expect(await running).toMatchObject({ code: "UNAVAILABLE", data: { sqlState: "57P01" } });
    held.release();
  });
});

describe("a copy", () => {
  /** Rows of one text column in binary form; the lengths of a row's bytes are those of its text, a header and a trailer apart. */
  async function textsOf(made: Pool, text: string): Promise<string[]> {
    const texts: string[] = [];
    await made.copyOut(`copy (${text}) to stdout`, (data, at, end) => void texts.push(data.toString("utf8", at, end)));
    return texts;
  }

  const lines = (count: number, width: number): string =>
    `select repeat(chr(64 + n % 26), n * ${width}) from generate_series(1, ${count}) n`;
  const expected = (count: number, width: number): string[] =>
    Array.from({ length: count }, (_, n) => `${String.fromCharCode(64 + ((n + 1) % 26)).repeat((n + 1) * width)}\n`);

  test.each([
    { count: 0, width: 1 },
    { count: 3_000, width: 1 },
    { count: 200, width: 331 },
    { count: 4, width: 500_000 },
  ])("of $count rows, each $width bytes longer than the one before, arrives row by row", async ({ count, width }) => {
    const made = pool({ max: 1 });
    expect(await textsOf(made, lines(count, width))).toEqual(expected(count, width));
    expect((await made.query("select 1 as n")).rows).toEqual([{ n: 1 }]);
  });

  test("arrives whatever its chunks are, beside whatever else the server says", async () => {
    const { proxy, url } = await proxied();
    const made = pool({ url, max: 1 });
    await made.query(
      "create function warned(n int) returns text language plpgsql as $$ begin raise notice 'n is %', n; return n; end $$",
    );
    proxy.delay(1);
    expect(await textsOf(made, "select warned(n) from generate_series(1, 400) n")).toEqual(
      Array.from({ length: 400 }, (_, n) => `${n + 1}\n`),
    );
  });

  test("behind a pooler, and after statements that are prepared, is the same", async () => {
    const made = pool({ max: 1, pooler: "transaction" });
    await made.query({ name: "one", text: "select $1::int", values: [1] });
    expect(await textsOf(made, "select 'a' union all select 'b'")).toEqual(["a\n", "b\n"]);
    const direct = pool({ max: 1 });
    await direct.query({ name: "one", text: "select $1::int as n", values: [1] });
    expect(await textsOf(direct, "select 'a'")).toEqual(["a\n"]);
    expect((await direct.query({ name: "one", text: "select $1::int as n", values: [2] })).rows).toEqual([{ n: 2 }]);
  });

  test("whose listener throws is drained, and its connection is kept", async () => {
    const made = pool({ max: 1 });
    const pid = (await made.query<{ pid: number }>("select pg_backend_pid() as pid")).rows;
    const refusal = new Error("no");
    let rows = 0;
    const failing = made.copyOut(`copy (${lines(5_000, 1)}) to stdout`, () => {
      rows += 1;
      if (rows === 2) throw refusal;
    });
    await expect(failing).rejects.toBe(refusal);
    expect(rows).toBe(2);
    expect((await made.query("select pg_backend_pid() as pid")).rows).toEqual(pid);
  });

  test("that is refused, at once or in the middle, is an error of its own and costs no connection", async () => {
    const made = pool({ max: 1 });
    const pid = (await made.query<{ pid: number }>("select pg_backend_pid() as pid")).rows;
    expect(sqlState(await failure(textsOf(made, "select * from nothing")))).toBe("42P01");
    expect(sqlState(await failure(textsOf(made, "select 1 / (3000 - n) from generate_series(1, 5000) n")))).toBe("22012");
    expect((await made.query("select pg_backend_pid() as pid")).rows).toEqual(pid);
    expect(await textsOf(made, "select 'a'")).toEqual(["a\n"]);
  });

  test("that takes too long, or loses its connection in the middle, is UNAVAILABLE", async () => {
    const slow = pool({ statementTimeoutMs: 100 });
    expect(await failure(textsOf(slow, "select pg_sleep(0.01) from generate_series(1, 500)"))).toMatchObject({
      code: "UNAVAILABLE",
      data: { sqlState: "57014" },
    });
    const { proxy, url } = await proxied();
    const made = pool({ url, max: 1 });
    let rows = 0;
    const cut = made.copyOut(`copy (${lines(3_000, 1)}) to stdout`, () => {
      rows += 1;
      if (rows === 100) proxy.reset();
    });
    expect(await codeOf(cut)).toBe("UNAVAILABLE");
    expect(rows).toBeLessThan(3_000);
    expect(await textsOf(made, "select 'a'")).toEqual(["a\n"]);
  });

  test("whose answer is swallowed ends within the bound", async () => {
    const { proxy, url } = await proxied();
    const made = pool({ url, max: 1, statementTimeoutMs: 100 });
    await made.query("select 1");
    proxy.drop();
    expect(await codeOf(textsOf(made, "select 1"))).toBe("UNAVAILABLE");
    await proxy.heal();
    expect(await textsOf(made, "select 'a'")).toEqual(["a\n"]);
  });
});

describe("a transaction", () => {
  test("commits what its work resolves with and rolls back what it rejects", async () => {
    const made = pool();
    await made.query("create table ledger (n int)");
    expect(await made.transaction(async (tx) => (await tx.query("insert into ledger values (1) returning n")).rows)).toEqual([
      { n: 1 },
    ]);
    const refusal = new Error("no");
    const failing = made.transaction(async (tx) => {
      await tx.query("insert into ledger values (2)");
      throw refusal;
    });
    await expect(failing).rejects.toBe(refusal);
    expect((await made.query("select n from ledger")).rows).toEqual([{ n: 1 }]);
  });

  test("whose work swallows a failed statement says that nothing was committed", async () => {
    const made = pool();
    const swallowing = made.transaction(async (tx) => {
      await tx.query("select 1/0").catch(() => undefined);
    });
    expect(await codeOf(swallowing)).toBe("INTERNAL");
    await made.query("select 1");
  });
});

test("a server that is killed and comes back is used again by the same pool", async () => {
  const postgres = await startPrivatePostgres();
  const made = createPool({ url: postgres.adminUrl, applicationName: "t", max: 2, acquireTimeoutMs: 1_000 });
  try {
    await made.query("select 1");
    await postgres.kill();
    expect(await codeOf(made.query("select 1"))).toBe("UNAVAILABLE");
    await postgres.start();
    expect((await made.query("select 1 as n")).rows).toEqual([{ n: 1 }]);
  } finally {
    await made.end(100);
    await postgres.stop();
  }
});

test("ending cuts what does not finish in time, and a closed pool is UNAVAILABLE", async () => {
  const made = pool();
  const running = codeOf(made.query("select pg_sleep(20)"));
  await eventually(() => made.counts.open === 1, { timeoutMs: 20_000 });
  const start = performance.now();
  await made.end(100);
  expect(performance.now() - start).toBeLessThan(3_000);
  expect(await running).toBe("UNAVAILABLE");
  expect(await codeOf(made.query("select 1"))).toBe("UNAVAILABLE");
});

test("ending cuts a connection that was still being opened when its grace passed", async () => {
  const made = pool();
  const running = codeOf(made.query("select pg_sleep(20)"));
  const start = performance.now();
  await made.end(0);
  expect(performance.now() - start).toBeLessThan(3_000);
  expect(await running).toBe("UNAVAILABLE");
});

test.each([
  ["40001", true],
  ["40P01", true],
  ["53300", true],
  ["57P01", true],
  ["08006", true],
  ["23505", false],
  ["42P01", false],
  ["22P02", false],
])("SQLSTATE %s is retryable: %s", (state, isRetryable) => {
  const error = new pg.DatabaseError("x", 1, "error");
  error.code = state;
  expect(retryableSqlState(error)).toBe(isRetryable);
  expect(retryableSqlState(new Error(state))).toBe(false);
});
