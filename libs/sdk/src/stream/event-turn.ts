/**
 * One call into a processor and everything that must end before the next: open while the call and its blockers run, closed for good
 * when no blocker and no append is left. Background work outlives it and keeps only `append`.
 */
import { codedError, errorCode } from "../lib/coded-error.js";
import type { AnyProcessorContract } from "./contract.js";
import type { EventInput, ProcessorSource, StreamEvent } from "./event.js";
import { stampEvent, WriteBudget, type StampedEvent } from "./emitted-event.js";
import type { ProcessorActions } from "./stream-processor.js";

/** What all turns of one batch share. */
export interface TurnHost {
  readonly contract: AnyProcessorContract;
  append(events: readonly EventInput[]): Promise<StreamEvent[]>;
  buffer(events: readonly StampedEvent[]): void;
  background(work: () => unknown, offset: number | null): void;
}

export class EventTurn {
  readonly #host: TurnHost;
  readonly #source: ProcessorSource;
  readonly #blockers: (() => unknown)[] = [];
  readonly #appends = new Set<WatchedAppend>();
  #open = true;

  constructor(host: TurnHost, handling: { readonly offset: number; readonly type: string } | null) {
    this.#host = host;
    const { slug, version } = host.contract;
    this.#source =
      handling === null ? { slug, version } : { slug, version, whileProcessing: { offset: handling.offset, type: handling.type } };
  }

  /** Runs the call, then its blockers to a fixed point. Answers nothing to wait for when the call was synchronous and asked for nothing. */
  run(call: (actions: ProcessorActions<AnyProcessorContract>) => unknown): Promise<void> | undefined {
    let called: unknown;
    try {
      called = call(this.#actions());
    } catch (thrown) {
      return this.#fail(thrown);
    }
    if (called === undefined && this.#blockers.length === 0 && this.#appends.size === 0) {
      this.#open = false;
      return undefined;
    }
    return this.#finish(called);
  }

  async #finish(called: unknown): Promise<void> {
    try {
      await called;
      for (;;) {
        const blocker = this.#blockers.shift();
        if (blocker !== undefined) await blocker();
        else if (this.#appends.size > 0) await this.#appended();
        else break;
      }
    } catch (thrown) {
      await this.#fail(thrown);
    }
    this.#open = false;
  }

  /**
   * No write of a failed turn is still under way when the batch is delivered again. A turn that the loop limit stopped is done: trying
   * again cannot help, and the event stays reduced, so the state is still the fold of the log.
   */
  async #fail(thrown: unknown): Promise<void> {
    this.#open = false;
    await Promise.allSettled([...this.#appends].map(({ written }) => written));
    if (errorCode(thrown) !== "LOOP_LIMIT") throw thrown;
  }

  /** Waits for the appends under way; one that failed without anybody looking fails the turn, so that no write is lost unseen. */
  async #appended(): Promise<void> {
    for (const append of this.#appends) {
      const [outcome] = await Promise.allSettled([append.written]);
      this.#appends.delete(append);
      if (outcome.status === "rejected" && !append.observed) throw outcome.reason;
    }
  }

  #actions(): ProcessorActions<AnyProcessorContract> {
    return {
      append: (...events) => this.#append(events),
      emit: (...events) => this.#emit(events),
      blockProcessorWhile: (work) => {
        this.#assertOpen("blockProcessorWhile");
        this.#blockers.push(work);
      },
      runInBackground: (work) => this.#host.background(work, this.#source.whileProcessing?.offset ?? null),
    };
  }

  #append(inputs: readonly EventInput[]): Promise<StreamEvent[]> {
    const written = this.#write(inputs);
    if (!this.#open) return written;
    const append = WatchedAppend.of(written);
    this.#appends.add(append);
    return append;
  }

  async #write(inputs: readonly EventInput[]): Promise<StreamEvent[]> {
    const stamped = inputs.map((input) => stampEvent(this.#host.contract, input, this.#source));
    new WriteBudget().take(stamped);
    return stamped.length === 0 ? [] : this.#host.append(stamped.map(({ event }) => event));
  }

  #emit(inputs: readonly EventInput[]): void {
    this.#assertOpen("emit");
    for (const input of inputs) {
      if (input.offset !== undefined) {
        throw codedError(
          "INVALID_INPUT",
          `an emitted ${JSON.stringify(input.type)} cannot expect an offset: it is appended later; use append`,
        );
      }
    }
    this.#host.buffer(inputs.map((input) => stampEvent(this.#host.contract, input, this.#source)));
  }

  #assertOpen(action: string): void {
    if (!this.#open) {
      throw codedError("INVALID_INPUT", `${action} was called after its event was processed; background work writes with append`, {
        action,
      });
    }
  }
}

/** The answer to an append that knows whether somebody awaits it or handles its failure. */
class WatchedAppend extends Promise<StreamEvent[]> {
  observed = false;
  written: Promise<StreamEvent[]> = Promise.resolve([]);

  static of(written: Promise<StreamEvent[]>): WatchedAppend {
    const append = new WatchedAppend((resolve) => resolve(written));
    append.written = written;
    // The turn reports a failure nobody saw; the runtime need not call it unhandled as well.
    void Promise.prototype.then.call(append, undefined, () => undefined);
    return append;
  }

  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  override then<A = StreamEvent[], B = never>(
    onFulfilled?: ((events: StreamEvent[]) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.observed = true;
    return super.then(onFulfilled, onRejected);
  }
}
