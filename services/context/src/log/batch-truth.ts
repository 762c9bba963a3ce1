/** What the database has of batches whose memory turned out, or may turn out, to be wrong. */
import type { ContextBatch } from "./append-queue.js";
import type { SqlSession } from "./contract.js";
import type { HeadCache } from "./head-cache.js";
import { committedAppends, type AppendRow } from "./head.sql.js";
import { storedReceipts } from "./look-up.js";
import { int8Array, uuidArray } from "./pg-array.js";

/** What all lanes of a shard know of it. */
export interface ShardState {
  generation: number;
}

/** Reads the heads of the batches' contexts again; those without an id by their names. */
export async function reloadHeads(
  items: readonly { readonly batch: ContextBatch; readonly contextId: number }[],
  cache: HeadCache,
  shard: ShardState,
  session: SqlSession,
): Promise<void> {
  const known = items.filter(({ contextId }) => contextId >= 0);
  const refreshed =
    known.length === 0
      ? []
      : await cache.refresh(
          known.map(({ contextId }) => contextId),
          session,
        );
  const heads = new Map(refreshed.map((head) => [head.contextId, head]));
  for (const { batch, contextId } of known) batch.context.reloaded(heads.get(contextId) ?? batch.context.head!, shard.generation);
  const unnamed = items.filter(({ contextId }) => contextId < 0).map(({ batch }) => batch.context);
  if (unnamed.length === 0) return;
  const loaded = await cache.loadForAppend(
    unnamed.map(({ address }) => address),
    session,
  );
  for (const [index, context] of unnamed.entries()) context.reloaded(loaded[index]!, shard.generation);
}

/**
 * Answers, and takes out of their batches, the appends that are in the log already: sent before by this process or through another.
 * Says how many.
 */
export async function answerCommitted(batches: readonly ContextBatch[], session: SqlSession): Promise<number> {
  const asked = batches
    .flatMap((batch) => batch.appends.map((append) => ({ batch, append, contextId: batch.context.head!.contextId })))
    .filter(({ contextId }) => contextId >= 0);
  if (asked.length === 0) return 0;
  const rows = await session.query<AppendRow>(committedAppends, [
    int8Array(asked.map(({ contextId }) => contextId)),
    uuidArray(asked.map(({ append }) => append.idBytes)),
  ]);
  if (rows.length === 0) return 0;
  const found = new Map(
    rows.map(([contextId, appendId, offset, createdAtUs]) => [
      `${contextId} ${appendId}`,
      { offset: Number(offset), createdAtUs: Number(createdAtUs) },
    ]),
  );
  const known = asked.flatMap(({ batch, append, contextId }) => {
    const first = found.get(`${contextId} ${append.appendId}`);
    return first === undefined ? [] : [{ batch, append, contextId, appendId: append.appendId, first }];
  });
  const outcomes = await storedReceipts(session, known);
  known.forEach(({ batch, append }, index) => {
    const outcome = outcomes[index]!;
    batch.appends.splice(batch.appends.indexOf(append), 1);
    if (outcome instanceof Error) append.reject(outcome);
    else append.resolve(outcome);
  });
  return found.size;
}
