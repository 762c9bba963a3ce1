/**
 * The commit feed: the truth behind every wake-up. It answers the commits of a partition in an order in which a late commit is never
 * skipped, so whoever keeps its position has seen every commit before it. What it costs: a transaction that stays open, anywhere in
 * the database server, holds it back, while what it holds back is told by `isAtHead` being false.
 */
import type { Commit } from "@iterate-platform/proto/iterate/context/v1/feed";
import type { FeedCommit, LogStore } from "../log/log-store.js";
import { hiddenOwner } from "../log/contract.js";
import { decodePosition, encodePosition } from "./feed-position.js";

export interface FeedPage {
  readonly commits: readonly Commit[];
  /** Position after this page. */
  readonly next: string;
  /** True when nothing further was committed at the time of the call. */
  readonly isAtHead: boolean;
}

/**
 * The page after `after`, an earlier answer's `next` or empty for the start.
 *
 * @throws CodedError INVALID_INPUT when `after` is no position of the partition; UNAVAILABLE (retryable).
 */
export async function listCommits(store: LogStore, partition: number, after: string, limit: number): Promise<FeedPage> {
  const generation = await store.generation();
  const from = decodePosition(partition, generation, after);
  const found = await store.commitsAfter(partition, from, limit);
  const position = found.at(-1)?.position ?? from;
  // Asked after the page: what came in between is told as more to read, never the reverse.
  const isAtHead = found.length < limit && !(await store.hasCommitsAfter(partition, position));
  return {
    commits: found.flatMap((commit) => messageOf(partition, commit)),
    next: encodePosition(partition, generation, position),
    isAtHead,
  };
}

/** Nothing for a commit of a context that has no name now: one that is imported, or was replaced or removed. */
function messageOf(
  partition: number,
  { position: { commitNo }, address, firstOffset, lastOffset, lastControl, traceparent, atUs }: FeedCommit,
): Commit | [] {
  if (address === null || hiddenOwner.test(address.owner)) return [];
  return {
    context: address,
    partition,
    commitNo: BigInt(commitNo),
    firstOffset: BigInt(firstOffset),
    lastOffset: BigInt(lastOffset),
    lastControl: BigInt(lastControl),
    traceparent: traceparent ?? "",
    atUs: BigInt(atUs),
    events: [],
    inlined: false,
    reservedThrough: 0n,
  };
}
