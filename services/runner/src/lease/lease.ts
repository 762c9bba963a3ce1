/** One partition held by this pod: work done under it is fenced by its epoch and ends when its signal aborts. */

export interface Lease {
  readonly partition: number;
  readonly epoch: bigint;
  /** Aborts when the lease is lost, given up, or about to lapse: nothing outward may begin afterwards. */
  readonly signal: AbortSignal;
}

/** Who works on partitions. Called by the keeper, never at the same time for one partition. */
export interface PartitionWorker {
  /** Begin to work. */
  start(lease: Lease): void;
  /** End in good order: begin nothing new, wait for what is in flight. The keeper bounds the wait, then aborts the lease. */
  drain(lease: Lease): Promise<void>;
}
