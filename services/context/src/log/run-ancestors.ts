/** Runs that name the run they repeat: it must have been asked for in the same context, and may have ended long ago. */
import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import type { z } from "zod";
import type { ContextAddress, ContextCache, StorableEvent } from "./contract.js";
import type { LogQueries } from "./log-store.js";

export interface RunLog {
  readonly cache: Pick<ContextCache, "load">;
  readonly store: Pick<LogQueries, "controlEvents">;
}

/**
 * Looks the named runs up, once for all events of an append; what was asked for stays asked for, so nothing that happens meanwhile
 * changes the answer.
 *
 * @throws CodedError NOT_FOUND; UNAVAILABLE (retryable) when the database is away.
 */
export async function checkAncestors(events: readonly StorableEvent[], address: ContextAddress, log: RunLog): Promise<void> {
  const named = new Set(events.flatMap((event) => ancestorOf(event) ?? []));
  if (named.size === 0) return;
  const [head] = await log.cache.load([address]);
  const ranges =
    head === undefined ? [] : [...named].map((offset) => ({ contextId: head.contextId, after: offset - 1, through: offset }));
  const found = ranges.length === 0 ? [] : await log.store.controlEvents(ranges, 1);
  for (const { offset, type } of found) if (type === itx.runRequested.type) named.delete(offset);
  for (const offset of named)
    throw codedError("NOT_FOUND", `no run was asked for at offset ${offset} of this context`, { requestOffset: offset });
}

function ancestorOf({ type, control }: StorableEvent): number | undefined {
  if (type !== itx.runRequested.type || control === undefined) return undefined;
  return (control.payload as z.infer<typeof itx.runRequested.payload>).ancestor?.requestOffset;
}
