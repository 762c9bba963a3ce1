/** The next batch of a subscription: a page of its log, cut to what one delivery may carry. */
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import type { LogPage } from "../log/contract.js";

export interface BatchLimits {
  readonly events: number;
  /** Bytes of bodies; a single larger event goes alone. */
  readonly bytes: number;
}

export const batchLimits: BatchLimits = { events: 1_000, bytes: 4 * 1024 * 1024 };

export interface BatchPage {
  readonly events: readonly Event[];
  readonly range: { readonly after: number; readonly through: number };
  readonly atHead: boolean;
}

/** Cuts a page read after `after`. What was cut off is not lost: the next batch starts behind the last event of this one. */
export function cutPage(page: LogPage, after: number, limits: BatchLimits): BatchPage {
  let bytes = 0;
  let count = 0;
  for (const event of page.events) {
    bytes += (event.payload?.length ?? 0) + (event.metadata?.length ?? 0);
    if (count === limits.events || (count > 0 && bytes > limits.bytes)) break;
    count += 1;
  }
  const last = page.events[count - 1];
  if (count === page.events.length || last === undefined)
    return { events: page.events, range: { after, through: page.scannedThrough }, atHead: page.atHead };
  return { events: page.events.slice(0, count), range: { after, through: Number(last.offset) }, atHead: false };
}

/** The event of the batch that is deepest in its chain of reactions: what the batch does belongs to it. */
export function deepest(events: readonly Event[]): Event | undefined {
  let found: Event | undefined;
  for (const event of events) {
    if (found === undefined || depthOf(event) > depthOf(found)) found = event;
  }
  return found;
}

export function depthOf(event: Event): number {
  return event.source?.cause?.depth ?? 0;
}

/** The person all events of a batch were written for; null when they differ. */
export function commonPrincipal(events: readonly Event[]): string | null {
  const principals = new Set(events.map(({ source }) => source?.principal ?? null));
  const [only] = principals;
  return principals.size === 1 ? (only ?? null) : null;
}
