/** Ids for contexts that are about to get their first commit. */
import type { ContextHead, SqlSession } from "./contract.js";
import { nameOf, type HeadCache } from "./head-cache.js";
import { makeContexts, type BornRow } from "./head.sql.js";
import { int2Array, textArray } from "./pg-array.js";

/**
 * Makes the rows of contexts that have none. Answers every head by name with its id: as it was, or as the database has it where another
 * process was faster, which may be born already.
 */
export async function giveIds(
  unnamed: readonly ContextHead[],
  cache: HeadCache,
  session: SqlSession,
): Promise<Map<string, ContextHead>> {
  const rows = await session.query<BornRow>(makeContexts, [
    textArray(unnamed.map(({ address }) => address.owner)),
    textArray(unnamed.map(({ address }) => address.path)),
    int2Array(unnamed.map(({ partition }) => partition)),
  ]);
  const made = new Map(
    rows.map(([owner, path, id, createdAtUs]) => [
      nameOf({ owner, path }),
      { contextId: Number(id), createdAtUs: Number(createdAtUs) },
    ]),
  );
  const heads = new Map<string, ContextHead>();
  const others: ContextHead[] = [];
  for (const head of unnamed) {
    const name = nameOf(head.address);
    const own = made.get(name);
    if (own === undefined) others.push(head);
    else heads.set(name, { ...head, ...own });
  }
  if (others.length === 0) return heads;
  for (const head of await cache.loadForAppend(
    others.map(({ address }) => address),
    session,
  )) {
    heads.set(nameOf(head.address), head);
  }
  return heads;
}
