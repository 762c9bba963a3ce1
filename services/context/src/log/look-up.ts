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
  readonly isEphemeral: boolean;
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
  const claims: { readonly found: FoundAppend; readonly receipts: AppendReceipt[]; readonly added: readonly Added[] }[] = [];
  for (const one of found) {
    const receipts = receiptsFrom(one.append, one.first, await lookUpKeys(store, one.contextId, keysOf([one.append])));
    const added = one.append.events.map((event, index) => ({ event, ...receipts[index]! })).filter(({ existing }) => !existing);
    claims.push({ found: one, receipts, added });
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
    isWhatWasSent(stored[index]!, added)
      ? receipts
      : codedError(
          "IDEMPOTENCY_CONFLICT",
          `append_id ${appendId} names an append of other events, at offset ${first.offset}; make a new id for each append`,
          { appendId, existingOffset: first.offset },
        ),
  );
}

/** An event that was new when its append was committed, and where it is. */
interface Added {
  readonly event: SentEvent;
  readonly offset: number;
}

/** Keyed events are where their key is, the others follow on, beginning with the ephemeral ones before the first stored. */
function receiptsFrom(
  append: Keyed,
  first: { readonly offset: number; readonly createdAtUs: number },
  keys: ReadonlyMap<string, StoredKey | null>,
): AppendReceipt[] {
  const isFirst = ({ isEphemeral, idempotencyKey: key }: SentEvent): boolean =>
    !isEphemeral && (key === null || keys.get(key)?.offset === first.offset);
  const before = append.events.slice(0, Math.max(0, append.events.findIndex(isFirst)));
  let next = first.offset - before.filter(({ isEphemeral }) => isEphemeral).length;
  return append.events.map(({ idempotencyKey }) => {
    const stored = idempotencyKey === null ? null : (keys.get(idempotencyKey) ?? null);
    if (stored !== null && stored.offset !== next)
      return { offset: stored.offset, createdAtUs: stored.createdAtUs, existing: true };
    next += 1;
    return { offset: next - 1, createdAtUs: first.createdAtUs, existing: false };
  });
}

/**
 * Whether the rows from the first on are those of the added events that are stored, and the append ends with them. Of events that were
 * given up since, the first alone tells, by its type and key: a client that repeats an append so late is answered where it was.
 */
function isWhatWasSent(rows: readonly StoredBody[], added: readonly Added[]): boolean {
  const stored = added.filter(({ event }) => !event.isEphemeral);
  const [first] = stored;
  const [row] = rows;
  if (row?.isBare === true)
    return row.offset === first?.offset && row.type === first.event.type && row.idempotencyKey === first.event.idempotencyKey;
  const isSame = stored.every(({ event, offset }, index) => {
    const row = rows[index];
    if (row === undefined) return false;
    const { appendId, type, payload, metadata, idempotencyKey } = row;
    if (row.offset !== offset || (index > 0 && appendId !== null)) return false;
    return (
      type === event.type &&
      idempotencyKey === event.idempotencyKey &&
      isText(payload, event.payload) &&
      isText(metadata, event.metadata)
    );
  });
  const following = rows[stored.length];
  const isEnd = following === undefined || following.appendId !== null || following.offset > added.at(-1)!.offset + 1;
  return stored.length > 0 && isSame && isEnd;
}

function isText(stored: string | null, sent: Buffer | null): boolean {
  return stored === null || sent === null ? stored === sent : Buffer.from(stored).equals(sent);
}
