/**
 * The log of one context as sessions and project code use it: JSON in, JSON out, over the context service. An append answers the stored
 * events, which it reads back, because the platform stamps what the writer does not know.
 */
import type { AppendReceipt, ContextServiceClient } from "@iterate-platform/proto/iterate/context/v1/context";
import type { ContextAddress } from "@iterate-platform/proto/iterate/type/v1/context";
import type { EventInput, EventsFrame, EventsPage, ReadEventsArgs, StreamEvent, WaitForEventArgs } from "iterate/api";
import { codedError } from "iterate/lib";
import type { CallOptions, ServiceClient } from "./grpc-client.js";
import { uuidv7 } from "./ids.js";
import { toProtoEventInput, toStreamEvent } from "./stream-event.js";

export type ContextClient = ServiceClient<(typeof ContextServiceClient)["service"]>;

/** Room a wait's call has beyond the wait itself, milliseconds. */
const waitSlackMs = 5_000;

export interface FollowArgs {
  /** Absent: from the head. */
  readonly afterOffset?: number;
  readonly types?: readonly string[];
  readonly includeEphemeral?: boolean;
}

export class ContextLog {
  constructor(
    private readonly client: Pick<ContextClient, "append" | "readEvents" | "waitForEvent" | "streamEvents">,
    readonly address: ContextAddress,
    /** Credentials, cancellation and deadline of every call. */
    private readonly options: CallOptions,
  ) {}

  /**
   * Commits all events or none and answers them as stored, in order. Fails as `ContextService.Append` does. A caller that repeats a call
   * of unknown outcome gives the same `appendId`.
   */
  async append(events: readonly EventInput[], appendId: string = uuidv7()): Promise<StreamEvent[]> {
    if (events.length === 0) return [];
    const { receipts } = await this.client.append(
      { context: this.address, appendId, events: events.map(toProtoEventInput) },
      this.options,
    );
    return this.committed(events, receipts);
  }

  async read(args: ReadEventsArgs = {}): Promise<EventsPage> {
    const page = await this.client.readEvents(
      {
        context: this.address,
        afterOffset: offset("afterOffset", args.afterOffset ?? 0),
        limit: args.limit ?? 0,
        types: [...(args.types ?? [])],
        includeEphemeral: args.includeEphemeral ?? false,
      },
      this.options,
    );
    return {
      events: page.events.map((event) => toStreamEvent(event, this.address.path)),
      scannedThroughOffset: Number(page.scannedThroughOffset),
      atHead: page.atHead,
      ...(args.includeEphemeral === true ? { ephemeralsIncluded: page.ephemeralsIncluded } : {}),
    };
  }

  async wait(args: WaitForEventArgs): Promise<StreamEvent> {
    const types = args.types ?? (args.type === undefined ? [] : [args.type]);
    const timeoutMs = args.timeoutMs ?? 30_000;
    const { event } = await this.client.waitForEvent(
      {
        context: this.address,
        types: [...types],
        payload: args.payload === undefined ? undefined : Buffer.from(JSON.stringify(args.payload)),
        afterOffset: args.afterOffset === undefined ? undefined : offset("afterOffset", args.afterOffset),
        timeoutMs,
      },
      { ...this.options, deadlineMs: timeoutMs + waitSlackMs },
    );
    if (event === undefined) throw codedError("INTERNAL", "the context service answered a wait without an event");
    return toStreamEvent(event, this.address.path);
  }

  /** The past after `afterOffset` (absent: from the head) and then what happens, as fast as the reader takes it, until the call ends. */
  async *follow(args: FollowArgs): AsyncGenerator<EventsFrame> {
    const steps = this.client.streamEvents(
      {
        context: this.address,
        afterOffset: args.afterOffset === undefined ? undefined : offset("afterOffset", args.afterOffset),
        types: [...(args.types ?? [])],
        includeEphemeral: args.includeEphemeral ?? false,
      },
      this.options,
    );
    for await (const step of steps) {
      yield {
        events: step.events.map((event) => toStreamEvent(event, this.address.path)),
        scannedThroughOffset: Number(step.scannedThroughOffset),
        atHead: step.atHead,
      };
    }
  }

  /** Reads the stored events that the receipts name, one page for each run of neighbouring offsets; the ephemeral ones are as they were sent. */
  private async committed(sent: readonly EventInput[], receipts: readonly AppendReceipt[]): Promise<StreamEvent[]> {
    const wanted = new Set(receipts.filter((_, index) => sent[index]?.ephemeral !== true).map(({ offset }) => Number(offset)));
    const found = new Map<number, StreamEvent>();
    for (const at of [...wanted].sort((a, b) => a - b)) {
      if (found.has(at)) continue;
      let length = 1;
      while (wanted.has(at + length)) length += 1;
      let after = at - 1;
      while (after < at + length - 1) {
        const page = await this.read({ afterOffset: after, limit: Math.min(at + length - 1 - after, 1000) });
        for (const event of page.events) found.set(event.offset, event);
        if (page.scannedThroughOffset <= after)
          throw codedError("INTERNAL", `the appended event at offset ${after + 1} cannot be read back`);
        after = page.scannedThroughOffset;
      }
    }
    return receipts.map((receipt, index) => {
      const input = sent[index];
      if (input?.ephemeral === true) return takenEphemeral(input, receipt, this.address.path);
      const event = found.get(Number(receipt.offset));
      if (event === undefined) throw codedError("INTERNAL", `the appended event at offset ${receipt.offset} cannot be read back`);
      return event;
    });
  }
}

function takenEphemeral(input: EventInput, { offset, createdAtUs, source }: AppendReceipt, path: string): StreamEvent {
  const { type, payload, metadata } = toProtoEventInput(input);
  return toStreamEvent(
    {
      offset,
      type,
      payload,
      metadata,
      createdAtUs,
      source,
      idempotencyKey: "",
      traceparent: "",
      formatVersion: 0,
      ephemeral: true,
    },
    path,
  );
}

function offset(field: string, value: number): bigint {
  if (!Number.isSafeInteger(value) || value < 0)
    throw codedError("INVALID_INPUT", `${field} ${value} is not a whole number from 0 to 2^53 - 1`, { field });
  return BigInt(value);
}
