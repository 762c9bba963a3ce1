/**
 * Positions in the feed of a partition as callers hold them: opaque, and good for ever. One from before a restore of the database
 * may name transactions that were lost and whose ids are given out anew, so it is taken for the start: the feed is read again.
 */
import { codedError } from "iterate/lib";
import type { FeedPosition } from "../log/log-store.js";

export const feedStart: FeedPosition = { xid: "0", contextId: 0, commitNo: 0 };

const pattern = /^1\.(\d{1,3})\.(\d{1,9})\.(\d{1,20})\.(\d{1,16})\.(\d{1,16})$/;
const maxXid = 2n ** 64n - 1n;

/** The text of a position: a version, the partition, the generation of the database, and the place. */
export function encodePosition(partition: number, generation: number, { xid, contextId, commitNo }: FeedPosition): string {
  return Buffer.from(`1.${partition}.${generation}.${xid}.${contextId}.${commitNo}`).toString("base64url");
}

/** @throws CodedError INVALID_INPUT when `token` is no position of this partition, or of a generation yet to come. */
export function decodePosition(partition: number, generation: number, token: string): FeedPosition {
  if (token === "") return feedStart;
  const match = pattern.exec(Buffer.from(token, "base64url").toString("latin1"));
  if (match === null || BigInt(match[3]!) > maxXid || Number(match[1]) !== partition || Number(match[2]) > generation) {
    throw codedError("INVALID_INPUT", `after is not a position of the feed of partition ${partition}; begin with an empty one`, {
      partition,
    });
  }
  if (Number(match[2]) < generation) return feedStart;
  return { xid: match[3]!, contextId: Number(match[4]), commitNo: Number(match[5]) };
}
