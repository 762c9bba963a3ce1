/** What the log has of appends and keys that were sent before. */
import type { AppendReceipt, SqlSession } from "./contract.js";
import { takenKeys, type KeyRow } from "./head.sql.js";
import { int8Array, textArray } from "./pg-array.js";
import type { StoredKey } from "./plan.js";

/** As much of an append as a look-up needs. */
export interface Keyed {
  readonly events: readonly { readonly idempotencyKey: string | null }[];
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

/** The receipts of an append found in the log by its first new event: keyed events are where their key is, the others follow on. */
export function storedReceipts(
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
