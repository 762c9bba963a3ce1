/**
 * Reads that include ephemeral events: a page of the log, and among its events those that this process took lately. Only the process
 * whose commit is the newest of the context knows the newest ephemeral events; any other answers stored events alone and says so. The
 * proof of the page stays that of the stored events, so a reader who goes on from it sees the ephemeral ones behind the head again.
 */
import type { EphemeralRings } from "../publish/ephemeral-rings.js";
import { belongsTo, mergeEvents } from "../publish/merge-events.js";
import type { Heads } from "./confirm.js";
import type { ContextAddress } from "./contract.js";
import type { Page, PageBounds, Reads } from "./read.js";

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
    const ephemerals = kept
      .filter((one) => one.offset > after && belongsTo(one, page) && (types.length === 0 || types.includes(one.event.type)))
      .map(({ event }) => event);
    return { ...page, events: mergeEvents(page.events, ephemerals), areEphemeralsIncluded: true };
  }
}
