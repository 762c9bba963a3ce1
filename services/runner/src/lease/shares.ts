/** How partitions are shared between pods: a pure function of who is alive, so every pod computes the same answer alone. */
import { partitionCount } from "@iterate-platform/service/ids";

/**
 * How many partitions `pod` should hold while `alive` pods run. Shares differ by at most one and add up to all partitions; the
 * pods that hold one more are the first in the order of their ids.
 */
export function fairShare(alive: readonly string[], pod: string, partitions: number = partitionCount): number {
  const pods = [...new Set(alive)].sort();
  const place = pods.indexOf(pod);
  if (place < 0) return 0;
  return Math.floor(partitions / pods.length) + (place < partitions % pods.length ? 1 : 0);
}
