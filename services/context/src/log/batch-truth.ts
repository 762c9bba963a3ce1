/** What the database has of batches whose memory turned out, or may turn out, to be wrong. */
import type { ContextBatch } from "./append-queue.js";
import { closedGeneration } from "./contract.js";
import type { HeadCache } from "./head-cache.js";
import type { LogQueries } from "./log-store.js";
import { findCommitted, storedReceipts } from "./look-up.js";

/** What all lanes of a shard know of it. */
export interface ShardState {
  generation: number;
}

/** Reads the heads of the batches' contexts again; those without an id by their names. */
export async function reloadHeads(
  items: readonly { readonly batch: ContextBatch; readonly contextId: number }[],
  cache: HeadCache,
  shard: ShardState,
  store: LogQueries,
): Promise<void> {
  const known = items.filter(({ contextId }) => contextId >= 0);
  const refreshed =
    known.length === 0
      ? []
      : await cache.refresh(
          known.map(({ contextId }) => contextId),
          store,
        );
  const heads = new Map(refreshed.map((head) => [head.contextId, head]));
  // One that is not answered was replaced: its name may stand for another one.
  for (const { batch, contextId } of known)
    batch.context.reloaded(heads.get(contextId) ?? { ...batch.context.head!, generation: closedGeneration }, shard.generation);
  const unnamed = items.filter(({ contextId }) => contextId < 0).map(({ batch }) => batch.context);
  if (unnamed.length === 0) return;
  const loaded = await cache.loadForAppend(
    unnamed.map(({ address }) => address),
    store,
  );
  for (const [index, context] of unnamed.entries()) context.reloaded(loaded[index]!, shard.generation);
}

/**
 * Answers, and takes out of their batches, the appends that are in the log already: sent before by this process or through another.
 * Says how many.
 */
export async function answerCommitted(batches: readonly ContextBatch[], store: LogQueries): Promise<number> {
  const asked = batches
    .flatMap((batch) =>
      batch.appends.map((append) => ({ batch, append, contextId: batch.context.head!.contextId, appendId: append.appendId })),
    )
    .filter(({ contextId }) => contextId >= 0);
  const known = await findCommitted(store, asked);
  if (known.length === 0) return 0;
  const outcomes = await storedReceipts(store, known);
  known.forEach(({ batch, append }, index) => {
    const outcome = outcomes[index]!;
    batch.appends.splice(batch.appends.indexOf(append), 1);
    if (outcome instanceof Error) append.reject(outcome);
    else append.resolve(outcome);
  });
  return known.length;
}
