import { createLog } from "@iterate-platform/service/log";
import { eventually, useTestDatabase } from "@iterate-platform/testing";
import { codedError } from "iterate/lib";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startRepoHost, type RepoHost } from "../api/repo-host.fixture.js";
import { Outbox, retryDelayS, type RepoFact } from "./outbox.js";
import { addRefUpdate, outboxState } from "./ref-update.sql.js";
import { findRepo, makeRepo } from "./repo.sql.js";

const database = useTestDatabase();
let host: RepoHost;
beforeAll(async () => void (host = await startRepoHost(database.url)));
afterAll(() => host.stop());
beforeEach(async () => void (await host.db.query("truncate ref_update")));

async function journal(path: string, seq: number, fact: string | null = `{"n":${seq}}`): Promise<void> {
  const name = { owner: "prj_a", path };
  await makeRepo(host.db, name);
  const repo = (await findRepo(host.db, name))!;
  await addRefUpdate(host.db, repo.id, {
    seq,
    name: "refs/heads/main",
    old: null,
    new: "a".repeat(40),
    pushId: crypto.randomUUID(),
    pusher: undefined,
    fact,
    traceparent: undefined,
  });
}

const dueNow = () => host.db.query("update ref_update set due_at = now() where settled_at is null");

function sender(append: (fact: RepoFact) => Promise<void>): Outbox {
  return new Outbox({ db: host.db, append, log: createLog("bundler", { write: () => undefined }), random: () => 0.5 });
}

describe("the outbox", () => {
  it("tells each update once, in order, under the key of its repository and number", async () => {
    const told: RepoFact[] = [];
    const outbox = sender(async (fact) => void told.push(fact));
    for (const seq of [1, 2, 3]) await journal("/repos/one", seq, seq === 2 ? null : `{"n":${seq}}`);
    outbox.start();
    await eventually(async () => (await outboxState(host.db)).unsettled === 0);
    await outbox.stop();
    expect(told.map(({ owner, path, payload, idempotencyKey }) => [owner, path, payload, idempotencyKey])).toEqual([
      ["prj_a", "/repos/one", '{"n":1}', "repo/ref:/repos/one:1"],
      ["prj_a", "/repos/one", '{"n":3}', "repo/ref:/repos/one:3"],
    ]);
  });

  it("holds a repository's later facts while an earlier one cannot be told, and no other repository's", async () => {
    const told: string[] = [];
    const outbox = sender(async (fact) => {
      told.push(fact.idempotencyKey);
      if (fact.path === "/repos/held") throw codedError("UNAVAILABLE", "the log is away");
    });
    for (const seq of [1, 2]) await journal("/repos/held", seq);
    for (const seq of [1, 2]) await journal("/repos/free", seq);
    for (let round = 0; round < 3; round += 1) await outbox.round();
    expect(told).toEqual(["repo/ref:/repos/held:1", "repo/ref:/repos/free:1", "repo/ref:/repos/free:2"]);
    await dueNow();
    await outbox.round();
    expect(told.at(-1)).toBe("repo/ref:/repos/held:1");
    expect(await outboxState(host.db)).toMatchObject({ unsettled: 2, nextDueS: expect.closeTo(0.375, 1) });
  });

  it("keeps a fact that the log refuses for good as a dead letter and goes on", async () => {
    const outbox = sender(async (fact) => {
      if (fact.idempotencyKey.endsWith(":1")) throw codedError("IDEMPOTENCY_CONFLICT", "another body");
    });
    for (const seq of [1, 2]) await journal("/repos/refused", seq);
    for (let round = 0; round < 3; round += 1) await outbox.round();
    const { rows } = await host.db.query("select seq, failure from ref_update order by seq");
    expect(rows).toEqual([
      { seq: "1", failure: "IDEMPOTENCY_CONFLICT: another body" },
      { seq: "2", failure: null },
    ]);
  });

  it.each(["FORBIDDEN", "UNAUTHENTICATED", "OVERLOADED", "INTERNAL", "NOT_A_METHOD"] as const)(
    "tries a fact again that was answered %s",
    async (code) => {
      await journal("/repos/again", 1);
      await sender(async () => Promise.reject(codedError(code, "not now"))).round();
      expect(await outboxState(host.db)).toMatchObject({ unsettled: 1 });
    },
  );

  it("leaves the fact of a sender that died to the next one, once its claim is over", async () => {
    await journal("/repos/died", 1);
    const died = sender(() => new Promise(() => undefined));
    void died.round();
    await eventually(async () => (await outboxState(host.db)).nextDueS! > 20);
    const told: string[] = [];
    const next = sender(async (fact) => void told.push(fact.idempotencyKey));
    await next.round();
    expect(told).toEqual([]);
    await dueNow();
    await next.round();
    expect(told).toEqual(["repo/ref:/repos/died:1"]);
  });

  it("never lets two senders tell the same fact at once", async () => {
    for (let repo = 0; repo < 6; repo += 1) for (const seq of [1, 2]) await journal(`/repos/many${repo}`, seq);
    const told: string[] = [];
    const senders = Array.from({ length: 3 }, () => sender(async (fact) => void told.push(fact.idempotencyKey)));
    for (let round = 0; round < 4; round += 1) await Promise.all(senders.map((outbox) => outbox.round()));
    expect(told.toSorted()).toEqual([...new Set(told)].toSorted());
    expect(told).toHaveLength(12);
  });

  it("wakes at once when something is journalled", async () => {
    const told: string[] = [];
    const outbox = sender(async (fact) => void told.push(fact.idempotencyKey));
    outbox.start();
    await journal("/repos/woken", 1);
    outbox.wake();
    await eventually(() => told.length === 1, { timeoutMs: 900 });
    await outbox.stop();
  });

  it.each([
    [1, 0.1875],
    [2, 0.375],
    [3, 0.75],
    [8, 24],
    [9, 45],
    [1000, 45],
  ])("waits after attempt %i about %f s", (attempt, delayS) => {
    expect(retryDelayS(attempt, () => 0.5)).toBeCloseTo(delayS);
  });
});
