/** A page of one context's log, and who answers pages. */
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import type { ContextAddress } from "./contract.js";

export interface Page {
  /** In offset order. */
  readonly events: readonly Event[];
  /** Bytes of their bodies. */
  readonly bytes: number;
  /** Where the look began: the asked offset or, asked for the start, the one before the first event that is kept. */
  readonly scannedAfter: number;
  /** Every matching event at or below this offset, and above the one asked for, is in this page. */
  readonly scannedThrough: number;
  /** True when the page reaches the head of the log as of the call. */
  readonly isAtHead: boolean;
}

export interface PageBounds {
  /** Most events. */
  readonly limit: number;
  /** Most bytes of bodies; the first event is in the page whatever its size. */
  readonly maxBytes: number;
  /** Most offsets a filtered page looks through before it answers what it has, be it nothing; no bound when absent. */
  readonly maxScan?: number;
  /** The page may be an `EncodedPage`: for who passes it on as it is. */
  readonly isAnyForm?: boolean;
}

/** Pages of any context. */
export interface Reads {
  /**
   * The page after `after`, from the first event that is kept when it is 0; of a context not yet born it is empty and at the head.
   *
   * @param types names of the types wanted; none means all.
   * @throws CodedError OFFSET_TRUNCATED{firstOffset}; UNAVAILABLE (retryable); EVENT_UNREADABLE{offset}; the reason of `signal`.
   */
  read(address: ContextAddress, after: number, types: readonly string[], bounds: PageBounds, signal?: AbortSignal): Promise<Page>;
}
