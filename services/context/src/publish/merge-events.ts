/** Stored and ephemeral events of one context as one sequence. */
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import type { KeptEphemeral, Reach } from "./contract.js";

/**
 * Whether an ephemeral event belongs to a page of stored events that reaches so far: every stored event before it is in the page, or
 * before the page, and none that comes after it. A page that was cut leaves what follows its last event to the next one.
 */
export function belongsTo({ offset, after }: KeptEphemeral, { scannedThrough, isAtHead }: Reach): boolean {
  return offset < scannedThrough || (isAtHead && after <= scannedThrough);
}

/** Both in offset order. */
export function mergeEvents(stored: readonly Event[], ephemerals: readonly Event[]): readonly Event[] {
  if (ephemerals.length === 0) return stored;
  const merged: Event[] = [];
  let at = 0;
  for (const event of stored) {
    while (at < ephemerals.length && ephemerals[at]!.offset < event.offset) merged.push(ephemerals[at++]!);
    merged.push(event);
  }
  return merged.concat(ephemerals.slice(at));
}
