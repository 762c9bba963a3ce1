/**
 * The commit feed: the truth behind every wake-up. It answers the commits of a partition in an order in which a late commit is never
 * skipped, so whoever keeps its position has seen every commit before it. What it costs: a transaction that stays open, anywhere in
 * the database server, holds it back, while what it holds back is told by `isAtHead` being false.
 */
import type { Commit } from "@iterate-platform/proto/iterate/context/v1/feed";
import type { SqlSession, Statement } from "../log/contract.js";
import { decodePosition, encodePosition } from "./feed-position.js";
import { commitsAfter, hasCommitsAfter, type FeedRow } from "./feed.sql.js";

export interface FeedPage {
  readonly commits: readonly Commit[];
  /** Position after this page. */
  readonly next: string;
  /** True when nothing further was committed at the time of the call. */
  readonly isAtHead: boolean;
}

const generationOf: Statement = { name: "feed_generation", text: "select generation from shard" };

/**
 * The page after `after`, an earlier answer's `next` or empty for the start.
 *
 * @throws CodedError INVALID_INPUT when `after` is no position of the partition; UNAVAILABLE (retryable).
 */
export async function listCommits(sql: SqlSession, partition: number, after: string, limit: number): Promise<FeedPage> {
  const [generationRow] = await sql.query<readonly [number]>(generationOf, []);
  const generation = generationRow![0];
  const from = decodePosition(partition, generation, after);
  const rows = await sql.query<FeedRow>(commitsAfter, [partition, from.xid, from.contextId, from.commitNo, limit]);
  const last = rows.at(-1);
  const position = last === undefined ? from : { xid: last[0], contextId: Number(last[1]), commitNo: Number(last[2]) };
  // Asked after the page: what came in between is told as more to read, never the reverse.
  const isAtHead =
    rows.length < limit &&
    (await sql.query(hasCommitsAfter, [partition, position.xid, position.contextId, position.commitNo])).length === 0;
  return { commits: rows.map((row) => commitOf(partition, row)), next: encodePosition(partition, generation, position), isAtHead };
}

function commitOf(
  partition: number,
  [, , commitNo, owner, path, firstOffset, lastOffset, lastControl, traceparent, atUs]: FeedRow,
): Commit {
  return {
    context: { owner, path },
    partition,
    commitNo: BigInt(commitNo),
    firstOffset: BigInt(firstOffset),
    lastOffset: BigInt(lastOffset),
    lastControl: BigInt(lastControl),
    traceparent: traceparent ?? "",
    atUs: BigInt(atUs),
    events: [],
    inlined: false,
  };
}
