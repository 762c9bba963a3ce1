/** What the log has of appends and keys that were sent before. */
import { codedError, type CodedError } from "iterate/lib";
import type { AppendReceipt, SqlSession } from "./contract.js";
import { storedBodies, takenKeys, type KeyRow, type StoredBodyRow } from "./head.sql.js";
import { int8Array, textArray } from "./pg-array.js";
import type { StoredKey } from "./plan.js";

/** As much of an append as a look-up needs. */
export interface Keyed {
  readonly events: readonly SentEvent[];
}

export interface SentEvent {
  readonly type: string;
  readonly payload: Buffer | null;
  readonly metadata: Buffer | null;
  readonly idempotencyKey: string | null;
}

/** Every key of the appends, once. */
export function keysOf(appends: readonly Keyed[]): string[] {
  const keys = new Set<string>();
  for (const { events } of appends) for (const { idempotencyKey } of events) if (idempotencyKey !== null) keys.add(idempotencyKey);
  return [...keys];
}

/** Every one of `keys` with the event that has it in the context, or `null`. */
export async function lookUpKeys(
  session: SqlSession,
  contextId: number,
  keys: readonly string[],
): Promise<Map<string, StoredKey | null>> {
  const known = new Map<string, StoredKey | null>(keys.map((key) => [key, null]));
  if (keys.length === 0 || contextId < 0) return known;
  for (const [, key, offset, createdAtUs, digest, source] of await session.query<KeyRow>(takenKeys, [
    int8Array(keys.map(() => contextId)),
    textArray(keys),
  ])) {
    known.set(key, { offset: Number(offset), createdAtUs: Number(createdAtUs), digest, source });
  }
  return known;
}

/** An append whose id is in the log: where its first new event is. */
export interface FoundAppend {
  readonly contextId: number;
  readonly appendId: string;
  readonly append: Keyed;
  readonly first: { readonly offset: number; readonly createdAtUs: number };
}

/**
 * The receipts of appends found in the log by their ids, in their order; an IDEMPOTENCY_CONFLICT for one of which other events are
 * stored than were sent, since a receipt for those would acknowledge what was never committed. One statement, and one for each append
 * with keys.
 */
export async function storedReceipts(
  session: SqlSession,
  found: readonly FoundAppend[],
): Promise<(AppendReceipt[] | CodedError)[]> {
  const claims: { readonly found: FoundAppend; readonly receipts: AppendReceipt[]; readonly added: readonly SentEvent[] }[] = [];
  for (const one of found) {
    const receipts = receiptsFrom(one.append, one.first, await lookUpKeys(session, one.contextId, keysOf([one.append])));
    claims.push({ found: one, receipts, added: one.append.events.filter((_, index) => !receipts[index]!.existing) });
  }
  const rows = await session.query<StoredBodyRow>(storedBodies, [
    int8Array(found.map(({ contextId }) => contextId)),
    int8Array(found.map(({ first }) => first.offset)),
    // One more than was sent, to see whether the stored append goes on.
    int8Array(claims.map(({ added }) => added.length + 1)),
  ]);
  const stored = Map.groupBy(rows, ([ordinal]) => Number(ordinal) - 1);
  return claims.map(({ found: { appendId, first }, receipts, added }, index) =>
    isWhatWasSent(stored.get(index) ?? [], added, first.offset)
      ? receipts
      : codedError(
          "IDEMPOTENCY_CONFLICT",
          `append_id ${appendId} names an append of other events, at offset ${first.offset}; make a new id for each append`,
          { appendId, existingOffset: first.offset },
        ),
  );
}

/** Keyed events are where their key is, the others follow on. */
function receiptsFrom(
  append: Keyed,
  first: { readonly offset: number; readonly createdAtUs: number },
  keys: ReadonlyMap<string, StoredKey | null>,
): AppendReceipt[] {
  let next = first.offset;
  return append.events.map(({ idempotencyKey }) => {
    const stored = idempotencyKey === null ? null : (keys.get(idempotencyKey) ?? null);
    if (stored !== null && stored.offset !== next)
      return { offset: stored.offset, createdAtUs: stored.createdAtUs, existing: true };
    next += 1;
    return { offset: next - 1, createdAtUs: first.createdAtUs, existing: false };
  });
}

/** Whether the rows from `firstOffset` on are the added events, and the append ends with them. */
function isWhatWasSent(stored: readonly StoredBodyRow[], added: readonly SentEvent[], firstOffset: number): boolean {
  const isSame = added.every((event, index) => {
    const row = stored[index];
    if (row === undefined) return false;
    const [, offset, appendId, type, payload, metadata, key] = row;
    if (Number(offset) !== firstOffset + index || (index > 0 && appendId !== null)) return false;
    return (
      type === event.type && key === event.idempotencyKey && isText(payload, event.payload) && isText(metadata, event.metadata)
    );
  });
  const following = stored[added.length];
  return isSame && (following === undefined || following[2] !== null || Number(following[1]) !== firstOffset + added.length);
}

function isText(stored: string | null, sent: Buffer | null): boolean {
  return stored === null || sent === null ? stored === sent : Buffer.from(stored).equals(sent);
}
