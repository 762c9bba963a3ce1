/** Answers whose events are bytes already. To a caller in this process they are messages like all others. */
import { ReadEventsResponse, StreamEventsResponse } from "@iterate-platform/proto/iterate/context/v1/context";
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import { EncodedMessage } from "@iterate-platform/service/grpc-server";
import type { EncodedPage } from "../log/encoded-page.js";

export class EncodedStep extends EncodedMessage implements StreamEventsResponse {
  readonly scannedThroughOffset: bigint;
  readonly atHead: boolean;
  protected readonly page: EncodedPage;

  constructor(page: EncodedPage) {
    super();
    this.page = page;
    this.scannedThroughOffset = BigInt(page.scannedThrough);
    this.atHead = page.isAtHead;
  }

  get events(): Event[] {
    return this.page.events as Event[];
  }

  encoded(): Uint8Array {
    const { scannedThroughOffset, atHead } = this;
    return this.page.message(StreamEventsResponse.encode({ events: [], scannedThroughOffset, atHead }).finish());
  }

  sent(): void {
    this.page.release();
  }
}

/** Stored events alone. */
export class EncodedRead extends EncodedStep implements ReadEventsResponse {
  readonly ephemeralsIncluded = false;
  readonly scannedAfterOffset: bigint;

  constructor(page: EncodedPage) {
    super(page);
    this.scannedAfterOffset = BigInt(page.scannedAfter);
  }

  override encoded(): Uint8Array {
    const { scannedThroughOffset, atHead, ephemeralsIncluded, scannedAfterOffset } = this;
    const rest = { events: [], scannedThroughOffset, atHead, ephemeralsIncluded, scannedAfterOffset };
    return this.page.message(ReadEventsResponse.encode(rest).finish());
  }
}
