/** From what an append stored to what is published of it. */
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import type { CommittedContext, EphemeralBatch, PlacedEvent, StorableEvent } from "../log/contract.js";
import { decodeSource } from "../log/stored-event.js";
import type { CommitHint, ToldEphemeral } from "./contract.js";

/** What an event may take in memory or on the wire beside its bodies. */
export const envelopeBytes = 256;

export function committedBytes({ rows }: CommittedContext): number {
  let bytes = 0;
  for (const { event } of rows) bytes += event.bytes + envelopeBytes;
  return bytes;
}

/** Events as callers see them; stored ones equal to what a read of the log answers. */
export function committedEvents(rows: readonly PlacedEvent[], atUs: number): Event[] {
  const createdAtUs = BigInt(atUs);
  let last: { text: string; source: Event["source"] } | undefined;
  return rows.map(({ event, offset }) => {
    if (last?.text !== event.source) last = { text: event.source, source: decodeSource(event.source) };
    return committedEvent(event, BigInt(offset), createdAtUs, last.source);
  });
}

function committedEvent(event: StorableEvent, offset: bigint, createdAtUs: bigint, source: Event["source"]): Event {
  return {
    offset,
    type: event.type,
    payload: event.payload ?? undefined,
    metadata: event.metadata ?? undefined,
    idempotencyKey: event.idempotencyKey ?? "",
    createdAtUs,
    source,
    traceparent: event.traceparent ?? "",
    formatVersion: event.formatVersion,
    ephemeral: event.isEphemeral,
  };
}

/** Ephemeral events as they are kept and told. */
export function toldEphemerals({ head, atUs, events }: EphemeralBatch): ToldEphemeral[] {
  return committedEvents(events, atUs).map((event, at) => {
    const { offset, after, event: taken } = events[at]!;
    return { event, offset, after, commitNo: head.commitNo, bytes: taken.bytes + envelopeBytes };
  });
}

/** What this process's own listeners are told; events larger than `maxBytes` in all are left for them to read. */
export function committedHint(commit: CommittedContext, atUs: number, maxBytes: number): CommitHint {
  const bytes = committedBytes(commit);
  return {
    address: commit.head.address,
    commitNo: commit.commitNo,
    firstOffset: commit.firstOffset,
    lastOffset: commit.lastOffset,
    reservedThrough: commit.head.reservedThrough,
    events: bytes <= maxBytes ? committedEvents(commit.rows, atUs) : undefined,
    bytes,
  };
}
