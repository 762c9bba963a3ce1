/** What the appends of a group rest on: the roots of their projects as they were when a policy admitted them. */
import { checkPolicy } from "./append-policies.js";
import type { ContextBatch } from "./append-queue.js";
import { readableCore } from "./confirm.js";
import type { ContextHead, PolicyGuard } from "./contract.js";
import type { HeadCache } from "./head-cache.js";
import type { LogQueries } from "./log-store.js";

/** The guards of the batches' appends, each once. */
export function guardsOf(batches: readonly ContextBatch[]): PolicyGuard[] {
  const guards = new Set<PolicyGuard>();
  for (const { appends } of batches) for (const { guard } of appends) if (guard !== null) guards.add(guard);
  return [...guards];
}

/** The roots as they are now. */
export function refreshRoots(guards: readonly PolicyGuard[], cache: HeadCache, store: LogQueries): Promise<ContextHead[]> {
  if (guards.length === 0) return Promise.resolve([]);
  return cache.refresh([...new Set(guards.map(({ contextId }) => contextId))], store);
}

/** Judges appends again whose root has moved since they were admitted; those that are refused now leave their batches. */
export async function admitAgain(batches: readonly ContextBatch[], cache: HeadCache, store: LogQueries): Promise<void> {
  const moved = guardsOf(batches).filter(({ contextId, lastControl }) => cache.peekById(contextId)?.lastControl !== lastControl);
  if (moved.length === 0) return;
  const roots = new Map(
    (await refreshRoots(moved, cache, store)).map((head) => [
      head.contextId,
      { head, guard: { contextId: head.contextId, lastControl: head.lastControl } },
    ]),
  );
  for (const { context, appends } of batches) {
    for (const append of appends.filter(({ guard }) => guard !== null && moved.includes(guard))) {
      const root = roots.get(append.guard!.contextId);
      // A root that is gone has no policy.
      append.guard = root?.guard ?? null;
      if (root === undefined) continue;
      try {
        checkPolicy(readableCore(root.head), context.address.path, append.writer, append.events);
      } catch (refusal) {
        append.reject(refusal);
        appends.splice(appends.indexOf(append), 1);
      }
    }
  }
}
