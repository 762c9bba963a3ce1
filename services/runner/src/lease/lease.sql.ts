/** The statements of partition leases. Every comparison of times is made by the database clock. */
import type { Statement } from "@iterate-platform/service/postgres";

export interface HeldRow {
  readonly partition: number;
  /** int8 as text. */
  readonly epoch: string;
}

/** Keeps the pod alive and renews its leases that have not lapsed: the partitions still held. A lapsed lease must be taken anew. */
export function renewLeases(pod: string, ttlMs: number): Statement {
  return {
    name: "renew_leases",
    text: `
      with alive as (
        insert into pod (id, expires_at) values ($1, clock_timestamp() + $2 * interval '1 millisecond')
        on conflict (id) do update set expires_at = excluded.expires_at
      )
      update partition_lease set expires_at = clock_timestamp() + $2 * interval '1 millisecond'
      where pod = $1 and expires_at > clock_timestamp()
      returning partition, epoch`,
    values: [pod, ttlMs],
  };
}

/** Ids of the pods alive now. */
export function alivePods(): Statement {
  return { name: "alive_pods", text: `select id from pod where expires_at > clock_timestamp()` };
}

/** Takes up to `count` partitions that nobody holds, raising their epochs. Rows another pod is taking are skipped. */
export function takeLeases(pod: string, ttlMs: number, count: number): Statement {
  return {
    name: "take_leases",
    text: `
      update partition_lease set pod = $1, epoch = epoch + 1, expires_at = clock_timestamp() + $2 * interval '1 millisecond'
      where partition in (
        select partition from partition_lease where pod is null or expires_at <= clock_timestamp()
        order by partition limit $3 for update skip locked
      )
      returning partition, epoch`,
    values: [pod, ttlMs, count],
  };
}

/** Gives leases up, so that another pod need not wait for them to lapse. Only the holder of that epoch can. */
export function releaseLeases(pod: string, partitions: readonly number[], epochs: readonly bigint[]): Statement {
  return {
    text: `
      update partition_lease as lease set pod = null, expires_at = '-infinity'
      from unnest($2::smallint[], $3::bigint[]) as held (partition, epoch)
      where lease.partition = held.partition and lease.epoch = held.epoch and lease.pod = $1`,
    values: [pod, partitions, epochs.map(String)],
  };
}

/** Takes the pod out of the sharing, and forgets pods that are long gone. */
export function removePod(pod: string): Statement {
  return { text: `delete from pod where id = $1 or expires_at < clock_timestamp() - interval '1 hour'`, values: [pod] };
}

/** The epoch of a partition's newest owner. */
export function leaseEpoch(partition: number): Statement {
  return { name: "lease_epoch", text: `select epoch from partition_lease where partition = $1`, values: [partition] };
}
