/** What the runner asks of the context service. Offsets are numbers here: the log refuses to go beyond 2^53. */
import type { Event, EventInput } from "@iterate-platform/proto/iterate/type/v1/event";
import type { ConfigPointer, OpenRun, Subscription } from "@iterate-platform/proto/iterate/context/v1/context";
import type { ContextCalls } from "@iterate-platform/service/context-calls";
import type { ContextKey } from "../delivery/contract.js";

export interface CallScope {
  readonly signal?: AbortSignal;
  /** Execution token the call is made under. */
  readonly execution?: string;
  readonly traceparent?: string;
}

export interface ContextDescription {
  readonly headOffset: number;
  readonly lastControl: number;
  readonly subscriptions: readonly Subscription[];
  readonly config: ConfigPointer | null;
  /** Runs that were asked for and have not ended, by offset. */
  readonly openRuns: readonly OpenRun[];
  /** True when the context may give up its past: it wants to know how far its subscriptions have got. */
  readonly wantsFloors: boolean;
  /** What the project is called, at its root; empty elsewhere. */
  readonly projectSlug: string;
}

export interface LogPage {
  readonly events: readonly Event[];
  readonly scannedThrough: number;
  readonly atHead: boolean;
  /** True when ephemeral events were asked for and the process that answered keeps the newest. */
  readonly ephemeralsIncluded?: boolean;
}

export interface AppendReceipt {
  readonly offset: number;
  readonly createdAtUs: bigint;
  readonly existing: boolean;
}

export interface FeedCommit extends ContextKey {
  readonly partition: number;
  readonly lastOffset: number;
  readonly lastControl: number;
}

export interface FeedPage {
  readonly commits: readonly FeedCommit[];
  readonly next: string;
  readonly atHead: boolean;
}

/** A place that one subscription has passed for good: what it needs is above. */
export interface SubscriptionFloor extends ContextKey {
  readonly name: string;
  readonly configuredAt: number;
  readonly resumedAt: number;
  readonly floor: number;
}

/** The log of every context, and its change feed. All failures are CodedErrors. */
export interface ContextLog {
  /** Calls of expressions at a context. */
  calls(context: ContextKey, scope: CallScope): Pick<ContextCalls, "invoke" | "describe">;
  describe(context: ContextKey, scope?: CallScope): Promise<ContextDescription>;
  /** `types` empty means all. */
  read(
    context: ContextKey,
    from: {
      readonly after: number;
      readonly limit: number;
      readonly types: readonly string[];
      readonly includeEphemeral?: boolean;
    },
    scope?: CallScope,
  ): Promise<LogPage>;
  /** All events or none. Repeats by itself, under one append id, while the service is away for a moment. */
  append(context: ContextKey, events: readonly EventInput[], scope?: CallScope): Promise<readonly AppendReceipt[]>;
  waitForEvent(
    context: ContextKey,
    what: { readonly types: readonly string[]; readonly payload?: Uint8Array; readonly after?: number; readonly timeoutMs: number },
    scope?: CallScope,
  ): Promise<Event>;
  feed(partition: number, after: string, scope?: CallScope): Promise<FeedPage>;
  /** Tells the log, at most 1,000 at a time, what of a partition need not be kept. May be repeated. */
  reportFloors(partition: number, floors: readonly SubscriptionFloor[], scope?: CallScope): Promise<void>;
}
