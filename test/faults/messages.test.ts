/** What comes over the broker may be repeated, shuffled, forged or no message at all: nobody who reads is harmed. */
import { CommitBatch } from "@iterate-platform/proto/iterate/context/v1/feed";
import { bucketOf, partitionOf } from "@iterate-platform/service/ids";
import { eventually } from "@iterate-platform/testing";
import { connect, headers as newHeaders, type MsgHdrs, type NatsConnection } from "@nats-io/transport-node";
import { afterEach, expect, test } from "vitest";
import { serviceRows } from "../../deploy/local/src/services.js";
import { useCluster } from "./cluster.js";
import type { Place } from "./load.js";
import { newSeed, pick, randomOf } from "./random.js";
import { count, testBoundMs } from "./scale.js";

const users = serviceRows.flatMap(({ name, broker }) =>
  broker === undefined
    ? []
    : [
        {
          user: name,
          password: `password-of-${name}`,
          permissions: { publish: broker.publish, subscribe: [...broker.subscribe, `_INBOX.${name}.>`] },
        },
      ],
);
const cluster = useCluster({ nats: { users }, env: { NATS_USER: "context", NATS_PASSWORD: "password-of-context" } });

const open: NatsConnection[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((connection) => connection.close()));
});

async function connectAs(user: string): Promise<NatsConnection> {
  const connection = await connect({
    servers: cluster.nats.url,
    user,
    pass: `password-of-${user}`,
    inboxPrefix: `_INBOX.${user}`,
  });
  open.push(connection);
  return connection;
}

const bucketOfPlace = ({ owner, path }: Place): number => bucketOf(partitionOf(owner, path));
const malformed = (): Promise<number[]> =>
  Promise.all(cluster.pods.map(({ process }) => process.metric("iterate_context_live_malformed_total")));

test(
  "every message heard again, several times and in another order",
  async () => {
    const random = randomOf(newSeed());
    const broker = await connectAs("context");
    const held: { subject: string; data: Uint8Array }[] = [];
    let repeated = 0;
    broker.subscribe("ctx.*", {
      callback: (_error, { subject, data, headers }) => {
        // Its own repeats are not repeated again.
        if (headers?.has("repeat") === true) return;
        held.push({ subject, data });
        for (let times = 0; times < 3; times += 1) {
          const again = pick(random, held.slice(-40));
          broker.publish(again.subject, again.data, { headers: repeatHeaders() });
          repeated += 1;
        }
      },
    });
    await broker.flush();
    const load = cluster.load();
    await load.acknowledged(count(100));
    await cluster.expectAllPromises(load);
    expect(repeated).toBeGreaterThan(count(30));
  },
  testBoundMs,
);

test(
  "garbage, commits of other buckets, and commits that do not exist, from one who may publish",
  async () => {
    const forger = await connectAs("context");
    const random = randomOf(newSeed());
    const load = cluster.load();
    const before = await malformed();
    let forged = 0;
    const forge = (): void => {
      const place = pick(random, load.places);
      const bucket = bucketOfPlace(place);
      const subject = `ctx.${bucket}`;
      forger.publish(subject, Buffer.from(Array.from({ length: 40 }, () => Math.floor(random() * 256))));
      // A bucket that is not the context's own.
      forger.publish(`ctx.${(bucket + 1) % 16}`, batchOf(place, 1n, 1n, 2n));
      // Far ahead, next but with an end that is not there, long gone, and numbers that are none.
      for (const [commitNo, first, last] of [
        [1_000_000n, 5n, 9n],
        [BigInt(Math.floor(load.acked / load.places.length)), 90_000n, 99_000n],
        [1n, 1n, 1n],
        [-1n, -5n, -1n],
        [2n ** 62n, 2n ** 62n, 2n ** 62n],
      ] as const)
        forger.publish(subject, batchOf(place, commitNo, first, last));
      forged += 1;
    };
    for (let round = 0; round < count(20); round += 1) {
      forge();
      await load.acknowledged(5);
    }
    await cluster.expectAllPromises(load);
    expect(forged).toBe(count(20));
    await eventually(async () => (await malformed()).some((commits, pod) => commits > before[pod]!));
  },
  testBoundMs,
);

test("a credential without the right is refused every subject of the platform that is not its own", async () => {
  const load = cluster.load();
  await load.acknowledged(10);
  for (const { user, permissions } of users) {
    const connection = await connectAs(user);
    const refused: string[] = [];
    void (async () => {
      for await (const status of connection.status())
        if (status.type === "error") refused.push(String((status as { error: Error }).error.message));
    })();
    const subjects = [
      "ctx.0",
      "ctx.15",
      "live.0",
      "lend.a",
      "$JS.API.STREAM.DELETE.CTX",
      "$JS.API.STREAM.PURGE.CTX",
      "$SYS.REQ.SERVER.PING",
      "other",
    ];
    const forbidden = subjects.filter((subject) => !permissions.publish.some((pattern) => isCovered(subject, pattern)));
    for (const subject of forbidden) connection.publish(subject, Buffer.from("forged"));
    for (const { user: other } of users) if (other !== user) connection.subscribe(`_INBOX.${other}.>`);
    await connection.flush();
    await eventually(() => {
      for (const subject of forbidden) expect(refused.join("\n")).toContain(`"${subject}"`);
      for (const { user: other } of users) if (other !== user) expect(refused.join("\n")).toContain(`_INBOX.${other}.>`);
      return true;
    });
    expect(forbidden.length, user).toBeGreaterThan(2);
    if (user !== "context") expect(forbidden).toContain("ctx.0");
  }
  await load.acknowledged(10);
  await cluster.expectAllPromises(load);
});

function repeatHeaders(): MsgHdrs {
  const marked = newHeaders();
  marked.set("repeat", "1");
  return marked;
}

function batchOf({ owner, path }: Place, commitNo: bigint, firstOffset: bigint, lastOffset: bigint): Uint8Array {
  const commit = {
    context: { owner, path },
    partition: partitionOf(owner, path),
    commitNo,
    firstOffset,
    lastOffset,
    inlined: false,
  };
  return CommitBatch.encode(CommitBatch.fromPartial({ commits: [commit] })).finish();
}

/** Whether a subject is one of a pattern of NATS. */
function isCovered(subject: string, pattern: string): boolean {
  const tokens = subject.split(".");
  const wanted = pattern.split(".");
  return (
    wanted.every((token, at) => token === ">" || (at < tokens.length && (token === "*" || token === tokens[at]))) &&
    (wanted.at(-1) === ">" || wanted.length === tokens.length)
  );
}
