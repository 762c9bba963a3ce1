/** Ids for contexts that are about to get their first commit. */
import type { ContextHead } from "./contract.js";
import { nameOf, type HeadCache } from "./head-cache.js";
import type { LogQueries } from "./log-store.js";

/**
 * Makes the rows of contexts that have none. Answers every head by name with its id: as it was, or as the database has it where another
 * process was faster, which may be born already.
 */
export async function giveIds(
  unnamed: readonly ContextHead[],
  cache: HeadCache,
  store: LogQueries,
): Promise<Map<string, ContextHead>> {
  const made = new Map((await store.makeContexts(unnamed)).map((context) => [nameOf(context.address), context]));
  const heads = new Map<string, ContextHead>();
  const others: ContextHead[] = [];
  for (const head of unnamed) {
    const name = nameOf(head.address);
    const own = made.get(name);
    if (own === undefined) others.push(head);
    else heads.set(name, { ...head, contextId: own.contextId, createdAtUs: own.createdAtUs });
  }
  if (others.length === 0) return heads;
  for (const head of await cache.loadForAppend(
    others.map(({ address }) => address),
    store,
  )) {
    heads.set(nameOf(head.address), head);
  }
  return heads;
}
