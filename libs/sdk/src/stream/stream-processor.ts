/** The base class of processors and what the engine hands to them. */
import { codedError } from "../lib/coded-error.js";
import { exceedsUtf8 } from "../lib/utf8.js";
import type { AnyProcessorContract, ConsumedEvent, EmittedEventInput, ProcessorState } from "./contract.js";
import type { StreamEvent } from "./event.js";
import { maxIdempotencyKeyBytes } from "./limits.js";

export interface ReduceArgs<C extends AnyProcessorContract> {
  readonly event: ConsumedEvent<C>;
  readonly state: ProcessorState<C>;
}

/** Whether the processor has now seen everything the log held when the batch was read. */
export interface Delivery {
  /** True exactly once per batch that reaches the head, on its last event for this processor or on one call without an event. */
  readonly caughtUp: boolean;
}

/** How a processor acts. The functions need no `this` and may be destructured. */
export interface ProcessorActions<C extends AnyProcessorContract> {
  /**
   * Writes to the processor's own context at once and answers the committed events. Only declared `emits`. The host makes a
   * redone batch repeat no identical write. Rejects as `append` of a context does, and with INVALID_INPUT for an undeclared type.
   */
  readonly append: (...events: EmittedEventInput<C>[]) => Promise<StreamEvent[]>;
  /**
   * Writes to the processor's own context together with this batch's checkpoint: exactly once, in order, before the next batch;
   * never when the batch fails. Prefer it to `append` unless the committed event is needed now. Throws INVALID_INPUT,
   * EVENT_TOO_LARGE or BATCH_TOO_LARGE at the call; not available to background work.
   */
  readonly emit: (...events: EmittedEventInput<C>[]) => void;
  /**
   * The next event waits for `work`. Works run one after the other in the order they were given, including those given by works.
   * A work that throws fails the batch: nothing of it is kept and it is delivered again.
   */
  readonly blockProcessorWhile: (work: () => unknown) => void;
  /**
   * Starts `work` once the batch's checkpoint is kept. Nothing waits for it; a failure is reported and fails nothing. It may run
   * again after a crash, so each of its effects must be safe to repeat.
   */
  readonly runInBackground: (work: () => unknown) => void;
}

export interface ProcessEventArgs<C extends AnyProcessorContract> extends ProcessorActions<C> {
  /** Null when the head is reached without an event in hand; `delivery.caughtUp` is then true. */
  readonly event: ConsumedEvent<C> | null;
  /** The state after this event. */
  readonly state: ProcessorState<C>;
  /** The state before it; the same object when the event changed nothing. */
  readonly previousState: ProcessorState<C>;
  readonly delivery: Delivery;
}

export interface ProcessBatchEndArgs<C extends AnyProcessorContract> extends ProcessorActions<C> {
  /** The state after the batch's last event. */
  readonly state: ProcessorState<C>;
  /** The state before its first. */
  readonly previousState: ProcessorState<C>;
  readonly delivery: Delivery;
}

/**
 * A fold of one context's log with effects. `reduce` is pure; everything that acts is in `processEvent`. In TypeScript annotate the
 * arguments of an override: `reduce({ event, state }: ReduceArgs<typeof Contract>)`.
 */
export abstract class StreamProcessor<C extends AnyProcessorContract = AnyProcessorContract> {
  abstract readonly contract: C;

  /**
   * The next state. Pure and synchronous; never changes `state` in place. Answering `undefined` or `state` itself keeps the state.
   * A throw keeps the state too, is reported, and the event is still processed. Ephemeral events are never reduced.
   */
  reduce({ state }: ReduceArgs<C>): ProcessorState<C> | undefined {
    return state;
  }

  /** Reacts to one event, after `reduce`. A throw fails the batch. */
  processEvent(_args: ProcessEventArgs<C>): unknown {
    return undefined;
  }

  /** Reacts once to a batch in which something was processed, for decisions that need its final state. A throw fails the batch. */
  processBatchEnd?(args: ProcessBatchEndArgs<C>): unknown;

  /**
   * A key under which a write to the own context lands once: `<slug>/<key>`, with an event `<slug>/<key>:<offset>`.
   * Throws INVALID_INPUT when it is longer than 512 bytes.
   */
  idempotencyKey(key: string, event?: { readonly offset: number } | null): string {
    const full = event ? `${this.contract.slug}/${key}:${event.offset}` : `${this.contract.slug}/${key}`;
    if (exceedsUtf8(full, maxIdempotencyKeyBytes)) {
      throw codedError(
        "INVALID_INPUT",
        `idempotency key ${JSON.stringify(full.slice(0, 80))}… is longer than ${maxIdempotencyKeyBytes} bytes`,
      );
    }
    return full;
  }
}
