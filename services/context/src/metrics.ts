/** What operators see of the context service beside what every service shows. */
import type { Metrics } from "@iterate-platform/service/admin";
import type { ShardMap } from "./log/shard-map.js";
import type { Shard } from "./log/shard.js";
import { statementCounts } from "./log/postgres/sql-session.js";
import type { Streams } from "./log/stream.js";
import type { Waits } from "./log/wait.js";
import type { CommitNews } from "./publish/commit-news.js";
import type { RetentionSweeper } from "./retention/sweeper.js";
import type { FirerCounts, ScheduleFirer } from "./schedules/firer.js";
import type { DueSweeper } from "./schedules/sweeper.js";
import type { Secrets } from "./secret/secrets.js";

export interface Measured {
  readonly shards: ShardMap<Shard>;
  readonly news: CommitNews;
  readonly streams: Streams;
  readonly waits: Waits;
  readonly secrets: Secrets;
  readonly sweepers: readonly RetentionSweeper[];
  readonly firing: readonly { readonly firer: ScheduleFirer; readonly sweeper: DueSweeper }[];
}

export function observe(metrics: Metrics, { shards, news, streams, waits, secrets, sweepers, firing }: Measured): void {
  const perShard = <T>(read: (shard: Shard) => T): readonly { readonly value: T; readonly labels: { readonly shard: string } }[] =>
    shards.all.map((shard, at) => ({ value: read(shard), labels: { shard: String(at) } }));
  metrics.observedGauge(
    "db.client.connection.count",
    { description: "Database connections by state, and callers waiting for one." },
    () =>
      shards.all.flatMap((shard, at) =>
        Object.entries(shard.pool.counts).map(([state, value]) => ({ value, labels: { state, shard: String(at) } })),
      ),
  );
  metrics.observedCounter("iterate.context.statements", { description: "Statements sent to the log, by name." }, () =>
    [...statementCounts].map(([statement, value]) => ({ value, labels: { statement } })),
  );
  metrics.observedCounter("iterate.context.confirmations", { description: "Queries that confirmed heads." }, () =>
    perShard(({ heads }) => heads.queries),
  );
  metrics.observedGauge("iterate.context.cached", { description: "Contexts held in memory." }, () =>
    perShard(({ cache }) => cache.size),
  );
  metrics.observedCounter(
    "iterate.context.malformed_events",
    { description: "Stored control events that were skipped because they have not the shape of their type." },
    () => perShard(({ cache }) => cache.malformedEvents),
  );
  metrics.observedGauge("iterate.context.streams.open", { description: "StreamEvents calls open." }, () => streams.open);
  metrics.observedGauge("iterate.context.waiters", { description: "WaitForEvent calls open." }, () => waits.count);
  metrics.observedGauge(
    "iterate.context.live.contexts",
    { description: "Contexts somebody listens to." },
    () => news.hub.counts.contexts,
  );
  metrics.observedGauge(
    "iterate.context.live.held",
    { description: "Recent events held for listeners.", unit: "By" },
    () => news.hub.counts.heldBytes,
  );
  metrics.observedCounter(
    "iterate.context.live.malformed",
    { description: "Commits in messages that were none, or not of their subject." },
    () => news.heard.malformed,
  );
  metrics.observedCounter(
    "iterate.context.ephemeral.events",
    {
      description:
        "Ephemeral events by what became of them: taken here; not sent to other processes; told here and given to nobody.",
    },
    () => [
      ...perShard(({ writer }) => writer.counters.ephemerals).map(({ value, labels }) => ({
        value,
        labels: { ...labels, outcome: "taken" },
      })),
      { value: news.livePublisher.counts.dropped, labels: { outcome: "unsent" } },
      { value: news.hub.droppedEphemerals, labels: { outcome: "dropped" } },
    ],
  );
  metrics.observedCounter(
    "iterate.context.ephemeral.malformed",
    { description: "Messages of ephemeral events that were none, or not of their subject." },
    () => news.heardLive.malformed,
  );
  metrics.observedGauge(
    "iterate.context.ephemeral.kept",
    { description: "Recent ephemeral events kept for readers.", unit: "By" },
    () => news.rings.counts.bytes,
  );
  metrics.observedCounter(
    "iterate.context.publish.commits",
    { description: "Commits handed to the publisher." },
    () => news.publisher.counts.commits,
  );
  metrics.observedCounter(
    "iterate.context.publish.dropped",
    { description: "Commits the publisher had no room for." },
    () => news.publisher.counts.dropped,
  );
  metrics.observedCounter("iterate.context.publish.messages", { description: "Messages of commits by how they ended." }, () =>
    (["acknowledged", "unstored", "unanswered"] as const).map((outcome) => ({
      value: news.publisher.counts[outcome],
      labels: { outcome },
    })),
  );
  metrics.observedGauge(
    "iterate.context.publish.waiting",
    { description: "Commits waiting to be published.", unit: "By" },
    () => news.publisher.waitingBytes,
  );
  metrics.observedGauge("iterate.context.secrets.unsealed", { description: "Unsealed secrets in memory." }, () => secrets.unsealed);
  metrics.observedCounter("iterate.context.truncations", { description: "Logs that gave up a part of their past." }, () =>
    sweepers.map(({ truncations }, at) => ({ value: truncations, labels: { shard: String(at) } })),
  );
  const perShardFiring = (read: (counts: FirerCounts) => number) => () =>
    firing.map(({ firer }, at) => ({ value: read(firer.counts), labels: { shard: String(at) } }));
  metrics.observedCounter(
    "iterate.context.schedules.due",
    { description: "Due rows that this process looked at." },
    perShardFiring(({ due }) => due),
  );
  metrics.observedCounter(
    "iterate.context.schedules.fired",
    { description: "Occurrences fired." },
    perShardFiring(({ fired }) => fired),
  );
  metrics.observedCounter(
    "iterate.context.schedules.failed",
    { description: "Schedules whose events were refused, and which rest." },
    perShardFiring(({ failed }) => failed),
  );
  metrics.observedCounter(
    "iterate.context.schedules.late",
    { description: "How late occurrences were found, all together.", unit: "s" },
    perShardFiring(({ lateMs }) => lateMs / 1_000),
  );
  metrics.observedCounter(
    "iterate.context.schedules.repaired",
    { description: "Due rows put right, by whether they were wrong or missing." },
    () =>
      firing.flatMap(({ firer, sweeper }, at) => [
        { value: firer.counts.repaired, labels: { shard: String(at), row: "wrong" } },
        { value: sweeper.restored, labels: { shard: String(at), row: "missing" } },
      ]),
  );
}
