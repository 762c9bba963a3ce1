/** The children of a context, wherever the contexts of its project are kept. */
import type { ContextAddress } from "../log/contract.js";
import type { Child, ChildStore } from "./contract.js";

export interface Children {
  readonly children: readonly Child[];
  /** Where the next page begins; empty when there is none. */
  readonly next: string;
}

/** One page of every shard, merged as far as all of them have looked. @throws CodedError UNAVAILABLE (retryable). */
export async function listChildren(
  stores: readonly ChildStore[],
  parent: ContextAddress,
  after: string,
  limit: number,
): Promise<Children> {
  const pages = await Promise.all(stores.map((store) => store.childrenOf(parent, after, limit)));
  const through = pages.flatMap(({ lookedThrough }) => lookedThrough ?? []).sort(byCode)[0];
  const merged = pages
    .flatMap(({ children }) => children)
    .filter(({ path }) => through === undefined || byCode(path, through) <= 0)
    .sort((one, other) => byCode(one.path, other.path));
  const children = merged.slice(0, limit);
  const next = merged.length > limit ? children.at(-1)!.path : (through ?? "");
  return { children, next };
}

/** In the order of UTF-8, as the database has it. */
function byCode(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}
