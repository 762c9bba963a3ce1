/** What the log has of appends and keys that were sent before. */
import { codedError, type CodedError } from "iterate/lib";
import type { AppendReceipt } from "./contract.js";
import type { AppendName, LogQueries, StoredBody } from "./log-store.js";
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
  store: LogQueries,
  contextId: number,
  keys: readonly string[],
): Promise<Map<string, StoredKey | null>> {
  const known = new Map<string, StoredKey | null>(keys.map((key) => [key, null]));
  if (keys.length === 0 || contextId < 0) return known;
  for (const taken of await store.takenKeys(contextId, keys)) known.set(taken.key, taken);
  return known;
}

/** Those of `asked` that are in the log, each with where it is. At most one statement. */
export async function findCommitted<Asked extends AppendName>(
  store: LogQueries,
  asked: readonly Asked[],
): Promise<(Asked & Pick<FoundAppend, "first">)[]> {
  if (asked.length === 0) return [];
  const found = new Map((await store.committedAppends(asked)).map((append) => [`${append.contextId} ${append.appendId}`, append]));
  return asked.flatMap((one) => {
    const first = found.get(`${one.contextId} ${one.appendId}`);
    return first === undefined ? [] : [{ ...one, first }];
  });
}

/** An append whose id is in the log: where its first new event is. */
export interface FoundAppend extends AppendName {
  readonly append: Keyed;
  readonly first: { readonly offset: number; readonly createdAtUs: number };
}

/**
 * The receipts of appends found in the log by their ids, in their order; an IDEMPOTENCY_CONFLICT for one of which other events are
 * stored than were sent, since a receipt for those would acknowledge what was never committed. One statement, and one for each append
 * with keys.
 */
export async function storedReceipts(store: LogQueries, found: readonly FoundAppend[]): Promise<(AppendReceipt[] | CodedError)[]> {
  const claims: { readonly found: FoundAppend; readonly receipts: AppendReceipt[]; readonly added: readonly SentEvent[] }[] = [];
  for (const one of found) {
    const receipts = receiptsFrom(one.append, one.first, await lookUpKeys(store, one.contextId, keysOf([one.append])));
    claims.push({ found: one, receipts, added: one.append.events.filter((_, index) => !receipts[index]!.existing) });
  }
  const stored = await store.storedBodies(
    claims.map(({ found: { contextId, first }, added }) => ({
      contextId,
      firstOffset: first.offset,
      // One more than was sent, to see whether the stored append goes on.
      count: added.length + 1,
    })),
  );
  return claims.map(({ found: { appendId, first }, receipts, added }, index) =>
    isWhatWasSent(stored[index]!, added, first.offset)
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
function isWhatWasSent(stored: readonly StoredBody[], added: readonly SentEvent[], firstOffset: number): boolean {
  const isSame = added.every((event, index) => {
    const row = stored[index];
    if (row === undefined) return false;
    const { offset, appendId, type, payload, metadata, idempotencyKey } = row;
    if (offset !== firstOffset + index || (index > 0 && appendId !== null)) return false;
    return (
      type === event.type &&
      idempotencyKey === event.idempotencyKey &&
      isText(payload, event.payload) &&
      isText(metadata, event.metadata)
    );
  });
  const following = stored[added.length];
  return isSame && (following === undefined || following.appendId !== null || following.offset !== firstOffset + added.length);
}

function isText(stored: string | null, sent: Buffer | null): boolean {
  return stored === null || sent === null ? stored === sent : Buffer.from(stored).equals(sent);
}
