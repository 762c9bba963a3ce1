/** The log of a context: `append`, `readEvents`, `waitForEvent`, `streamEvents`. */
import { method } from "@iterate-platform/service/capability";
import type { EventInput, EventsFrame, ReadEventsArgs, WaitForEventArgs } from "iterate/api";
import { events, follow, page, wait } from "../arguments.js";
import type { BuiltinCall, ContextRoot } from "../contract.js";
import { present } from "../record.js";

const inputTypes = `interface EventInput {
  /** At most 256 bytes; names under events.iterate.com/ are the platform's own. */
  type: string;
  /** JSON, at most 8 MiB together with metadata. */
  payload?: unknown;
  metadata?: unknown;
  /** The same key with the same body answers the stored event; another body is IDEMPOTENCY_CONFLICT. */
  idempotencyKey?: string;
  /** Lands at this offset or not at all. */
  offset?: number;
  /** Told to those who follow the log now, never stored. */
  ephemeral?: boolean;
}`;

const eventTypes = `interface StreamEvent {
  offset: number;
  type: string;
  payload?: unknown;
  metadata?: unknown;
  /** ISO 8601. */
  createdAt: string;
  /** The context whose log holds it. */
  path: string;
  source: { origin: string; cause: { chain: string; depth: number }; principal?: string; platform?: boolean };
  idempotencyKey?: string;
  ephemeral?: true;
}`;

const pageTypes = `${eventTypes}
interface EventsPage {
  events: StreamEvent[];
  /** Every matching event up to here is in the page; read on after it. */
  scannedThroughOffset: number;
  atHead: boolean;
}`;

export const logRoots: readonly ContextRoot[] = [
  {
    name: "append",
    isContextRoot: true,
    description: "Appends events to the log of the context.",
    instructions:
      "All events of a call land together, at contiguous offsets, or none does. Give an event an idempotencyKey when the call may be " +
      "repeated. The first append to a path makes the context.",
    types: `${inputTypes}\n${eventTypes}`,
    member: method(
      events,
      {
        signature: "(...events: EventInput[]) => Promise<StreamEvent[]>",
        description: "Commits all events or none, and answers them as stored.",
        example: 'itx.append({type: "acme/order-placed", payload: {id: 7}})',
        effect: "write",
      },
      ({ log }: BuiltinCall, ...inputs) => log.append(inputs.map((input) => present(input) as EventInput)),
    ),
  },
  {
    name: "readEvents",
    isContextRoot: true,
    description: "Reads a page of the log of the context.",
    instructions:
      "Events come in offset order. A page ends after limit events (500 unless told, at most 1,000) or 8 MiB; read on with afterOffset " +
      "scannedThroughOffset until atHead. types keeps only events of those types.",
    types: pageTypes,
    member: method(
      page,
      {
        signature:
          "(args?: {afterOffset?: number; limit?: number; types?: string[]; includeEphemeral?: boolean}) => Promise<EventsPage>",
        description: "Events after an offset, from the first that is kept when none is given.",
        example: "itx.readEvents({afterOffset: 0, limit: 100})",
        effect: "read",
      },
      ({ log }: BuiltinCall, args) => log.read((args ?? {}) as ReadEventsArgs),
    ),
  },
  {
    name: "waitForEvent",
    isContextRoot: true,
    description: "Waits for the first event that matches.",
    instructions:
      "Without afterOffset only events that come after the call match; with it the first match after that offset, stored or still to " +
      "come. payload names top-level fields that must be equal. It waits 30 s unless timeoutMs (at most 120,000) says otherwise, and " +
      "then throws WAIT_TIMEOUT: wait again with the same afterOffset.",
    types: eventTypes,
    member: method(
      wait,
      {
        signature:
          "(args: {type?: string; types?: string[]; payload?: Record<string, string | number | boolean | null>; afterOffset?: number; " +
          "timeoutMs?: number}) => Promise<StreamEvent>",
        description: "The first event of one of the types, with these fields.",
        example: 'itx.waitForEvent({type: "acme/order-placed", afterOffset: 0, timeoutMs: 5000})',
        effect: "read",
      },
      ({ log }: BuiltinCall, args) => log.wait(args as WaitForEventArgs),
    ),
  },
  {
    name: "streamEvents",
    isContextRoot: true,
    description: "Follows the log of the context.",
    instructions:
      "Answers a stream of frames: first what is stored after afterOffset (from the head when it is not given), then what happens, " +
      "without gap or reorder, until you leave it. Frames come as fast as you take them. To go on later, stream again with afterOffset " +
      "the last scannedThroughOffset.",
    types: `${eventTypes}
interface EventsFrame {
  /** May be empty when only the position moves. */
  events: StreamEvent[];
  scannedThroughOffset: number;
  atHead: boolean;
}`,
    member: method(
      follow,
      {
        signature: "(args?: {afterOffset?: number; types?: string[]; includeEphemeral?: boolean}) => AsyncIterable<EventsFrame>",
        description: "Frames of events, as they commit.",
        example: 'itx.streamEvents({afterOffset: 0, types: ["acme/order-placed"]})',
        effect: "read",
      },
      ({ log }: BuiltinCall, args): AsyncIterable<EventsFrame> => log.follow((args ?? {}) as Parameters<typeof log.follow>[0]),
    ),
  },
];
