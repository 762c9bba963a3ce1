/**
 * Reads that include ephemeral events: a page of the log, and among its events those that this process took lately. Only the process
 * whose commit is the newest of the context knows the newest ephemeral events; any other answers stored events alone and says so. The
 * proof of the page stays that of the stored events, so a reader who goes on from it sees the ephemeral ones behind the head again.
 */
import type { EphemeralRings } from "../publish/ephemeral-rings.js";
import type { KeptEphemeral } from "../publish/contract.js";
import { belongsTo, mergeEvents } from "../publish/merge-events.js";
import type { Heads } from "./confirm.js";
import type { ContextAddress } from "./contract.js";
import type { Page, PageBounds, Reads } from "./page.js";

/** Bodies of one answer; what finds no room is in the next page at the head, which holds nothing else. */
const maxAnswerBytes = 14_680_064;

export interface MixedPage extends Page {
  readonly areEphemeralsIncluded: boolean;
}

export interface MixedReadsParts {
  readonly reader: Reads;
  readonly heads: Heads;
  readonly rings: Pick<EphemeralRings, "of">;
  /** Whether the newest commit known of a context is one of this process, which handed out the offsets behind it. */
  readonly isHeld: (address: ContextAddress) => boolean;
}

export class MixedReads {
  readonly #parts: MixedReadsParts;

  constructor(parts: MixedReadsParts) {
    this.#parts = parts;
  }

  /** As `Reads.read`; ephemeral events do not count against the bounds. */
  async read(
    address: ContextAddress,
    after: number,
    types: readonly string[],
    bounds: PageBounds,
    signal?: AbortSignal,
  ): Promise<MixedPage> {
    const { reader, heads, rings, isHeld } = this.#parts;
    // Whether a commit of another process ended what this one handed out is known from here on.
    await heads.confirm(address);
    const page = await reader.read(address, after, types, bounds, signal);
    const kept = isHeld(address) ? rings.of(address) : undefined;
    if (kept === undefined) return { ...page, areEphemeralsIncluded: false };
    const wanted = kept.filter(
      (one) => one.offset > after && belongsTo(one, page) && (types.length === 0 || types.includes(one.event.type)),
    );
    const ephemerals = newestWithin(wanted, maxAnswerBytes - page.bytes).map(({ event }) => event);
    return { ...page, events: mergeEvents(page.events, ephemerals), areEphemeralsIncluded: true };
  }
}

function newestWithin(kept: readonly KeptEphemeral[], roomBytes: number): readonly KeptEphemeral[] {
  let bytes = 0;
  let from = kept.length;
  while (from > 0 && bytes + kept[from - 1]!.bytes <= roomBytes) bytes += kept[--from]!.bytes;
  return kept.slice(from);
}
