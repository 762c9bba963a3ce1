/**
 * Runs one processor over the log of one context.
 *
 * Rules: batches form one serial chain. In a batch events are handled one at a time: reduce, process, then every blocker to a fixed
 * point. Background work starts after the checkpoint and nothing waits for it. There is one checkpoint per batch, after all blockers;
 * a failed batch keeps nothing and is delivered whole again. In a batch that reaches the head exactly one call carries
 * `delivery.caughtUp`: the last event's, or one without an event.
 *
 * Between batches the engine is `unloaded` (reads its checkpoint at the next use; any failure leads back here), `loaded` (holds the
 * state), or `refused` (the state does not fit its cell: every further batch answers the same error until the engine is replaced).
 */
import type { EventsPage } from "../api/context.js";
import { codedError, errorCode, type CodedError } from "../lib/coded-error.js";
import { exceedsUtf8, utf8Length } from "../lib/utf8.js";
import { BackgroundWork } from "./background-work.js";
import {
  checkPayload,
  consumesEvent,
  initialState,
  type AnyProcessorContract,
  type ConsumedEvent,
  type ProcessorState,
} from "./contract.js";
import type {
  BackgroundFailure,
  BatchAnswer,
  CheckpointAnswer,
  EventBatch,
  ProcessorStorage,
  ProcessorStream,
  ReportProblem,
  Timers,
} from "./engine-ports.js";
import { WriteBudget, type StampedEvent } from "./emitted-event.js";
import type { EventInput, StreamEvent } from "./event.js";
import { EventTurn, type TurnHost } from "./event-turn.js";
import { maxStateBytes } from "./limits.js";
import { OffsetWaiters } from "./offset-waiters.js";
import { problemSentence } from "./problem.js";
import { StreamProcessor, type ProcessEventArgs } from "./stream-processor.js";

/** Events asked for at once when the engine reads the log itself. */
const readPage = 1000;
/** Longest type filter a read takes; a longer `consumes` list reads unfiltered. */
const maxFilterTypes = 100;

export interface ProcessorEngineHost<C extends AnyProcessorContract> {
  readonly stream: ProcessorStream;
  readonly storage: ProcessorStorage<ProcessorState<C>>;
  /** Needed by `waitUntilProcessed` alone. */
  readonly timers?: Timers;
  /** Default: one line on `console.error`. */
  readonly report?: ReportProblem;
}

/** What the engine holds between batches. */
interface Position<State> {
  readonly state: State;
  /** Everything through here has been folded; at least the kept offset. */
  readonly through: number;
  readonly kept: { readonly offset: number; readonly current: boolean };
}

/** One batch under way. */
interface BatchRun<C extends AnyProcessorContract> extends TurnHost {
  state: ProcessorState<C>;
  processed: number;
  handling: StreamEvent | null;
  readonly emits: EventInput[];
  readonly work: BackgroundWork;
  readonly failures: BackgroundFailure[];
}

export class ProcessorEngine<C extends AnyProcessorContract> {
  readonly #processor: StreamProcessor<C>;
  readonly #stream: ProcessorStream;
  readonly #storage: ProcessorStorage<ProcessorState<C>>;
  readonly #report: ReportProblem;
  readonly #waiters: OffsetWaiters | null;
  #position: Position<ProcessorState<C>> | null = null;
  #refused: CodedError | null = null;
  #chain: Promise<void> = Promise.resolve();

  constructor(processor: StreamProcessor<C>, host: ProcessorEngineHost<C>) {
    this.#processor = processor;
    this.#stream = host.stream;
    this.#storage = host.storage;
    this.#report = host.report ?? reportToConsole;
    this.#waiters = host.timers === undefined ? null : new OffsetWaiters(host.timers);
  }

  /**
   * Handles one batch and answers twice: `checkpoint` when it is kept, then `settled` when its background work has ended. Read it to
   * its end: background work starts when the second answer is asked for. Throws what a blocker or `processEvent` threw,
   * REDUCE_CHECKPOINT_TOO_LARGE (for good), or what stream and storage throw; then nothing was kept and the batch may be sent again.
   */
  async *processBatch(batch: EventBatch): AsyncGenerator<BatchAnswer<ProcessorState<C>>, void> {
    assertBatch(batch);
    const run = this.#newRun();
    const answer = await this.#exclusively(() => this.#handleBatch(batch, run));
    yield answer;
    run.work.start();
    await run.work.settled();
    yield { kind: "settled", failures: run.failures };
  }

  /** The state after every batch sent before this call, and the offset it stands for. */
  async snapshot(): Promise<{ readonly offset: number; readonly state: ProcessorState<C> }> {
    const { through, state } = await this.#exclusively(() => this.#load());
    return { offset: through, state };
  }

  /** Resolves when everything through `offset` was processed; rejects with WAIT_TIMEOUT (default after 10 s, at most 120 s). */
  async waitUntilProcessed({
    offset,
    timeoutMs,
  }: {
    readonly offset: number;
    readonly timeoutMs?: number;
  }): Promise<{ readonly offset: number }> {
    if (this.#waiters === null) throw codedError("INTERNAL", "this engine was made without timers and cannot wait");
    if (this.#position !== null && this.#position.through >= offset) return { offset: this.#position.through };
    const waiting = this.#waiters.wait(offset, timeoutMs);
    // A fresh engine learns from its checkpoint how far it has come; a failed read leaves the wait to the next batch.
    if (this.#position === null)
      this.#exclusively(() => this.#load()).then(
        ({ through }) => this.#waiters?.reached(through),
        () => undefined,
      );
    return { offset: await waiting };
  }

  async #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#chain;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#chain = promise;
    await before;
    try {
      return await work();
    } finally {
      resolve();
    }
  }

  async #load(): Promise<Position<ProcessorState<C>>> {
    if (this.#refused !== null) throw this.#refused;
    if (this.#position !== null) return this.#position;
    const { contract } = this.#processor;
    const kept = await this.#storage.read();
    if (kept === null) return (this.#position = { state: initialState(contract), through: 0, kept: { offset: 0, current: true } });
    const current = kept.version === contract.version;
    const state = current ? kept.state : await this.#foldAgain(kept.offset);
    return (this.#position = { state, through: kept.offset, kept: { offset: kept.offset, current } });
  }

  /** Another version kept the checkpoint: fold the log through the same offset by this one, without effects. */
  async #foldAgain(through: number): Promise<ProcessorState<C>> {
    const { contract } = this.#processor;
    let state = initialState(contract);
    for await (const event of this.#log(0, through)) {
      if (!consumesEvent(contract, event)) continue;
      const checked = checkPayload(contract, event);
      if (checked.kind === "malformed") this.#problem("malformed-payload", event, checked.error);
      else
        state = this.#reduce({ ...event, payload: checked.payload }, state, (error) =>
          this.#problem("reduce-failed", event, error),
        );
    }
    return state;
  }

  async #handleBatch(batch: EventBatch, run: BatchRun<C>): Promise<CheckpointAnswer<ProcessorState<C>>> {
    const position = await this.#load();
    // Until this batch is kept, nothing in memory can be trusted: code may have changed the state in place.
    this.#position = null;
    run.state = position.state;

    const hadGap = batch.range.after > position.through;
    if (hadGap) {
      for await (const event of this.#log(position.through, batch.range.after)) {
        const [checked] = this.#forProcessor([event], position.through);
        if (checked !== undefined) await this.#handleEvent(checked, run, false);
      }
    }
    const events = this.#forProcessor(batch.events, position.through);
    for (const [index, event] of events.entries()) {
      await this.#handleEvent(event, run, batch.atHead && index === events.length - 1);
    }
    if (batch.atHead && events.length === 0) await this.#handleHead(run);
    await this.#endBatch(position.state, run, batch.atHead);

    const through = Math.max(position.through, batch.range.through);
    const hasDurable = hadGap || batch.events.length === 0 || batch.events.some((event) => event.ephemeral !== true);
    const checkpoint = { version: this.#processor.contract.version, offset: through, state: run.state };
    const changed =
      !position.kept.current ||
      run.state !== position.state ||
      run.emits.length > 0 ||
      (hasDurable && through > position.kept.offset);
    if (changed) {
      this.#assertFits(run.state);
      await this.#storage.write(checkpoint, run.emits);
    }
    this.#position = { state: run.state, through, kept: changed ? { offset: through, current: true } : position.kept };
    this.#waiters?.reached(through);
    return { kind: "checkpoint", ...checkpoint, emits: run.emits, backgroundCount: run.work.count };
  }

  /** The events the processor is handed: of a type it takes, new or ephemeral, with a payload its schema accepts. */
  #forProcessor(events: readonly StreamEvent[], through: number): ConsumedEvent<C>[] {
    const { contract } = this.#processor;
    const handed: ConsumedEvent<C>[] = [];
    for (const event of events) {
      if (!consumesEvent(contract, event) || (event.ephemeral !== true && event.offset <= through)) continue;
      const checked = checkPayload(contract, event);
      if (checked.kind === "valid") handed.push({ ...event, payload: checked.payload });
      else this.#problem("malformed-payload", event, checked.error);
    }
    return handed;
  }

  async #handleEvent(event: ConsumedEvent<C>, run: BatchRun<C>, caughtUp: boolean): Promise<void> {
    const previousState = run.state;
    const state =
      event.ephemeral === true
        ? previousState
        : this.#reduce(event, previousState, (error) => this.#problem("reduce-failed", event, error));
    run.state = state;
    run.handling = event;
    run.processed += 1;
    await this.#process(run, { event, state, previousState, delivery: { caughtUp } });
  }

  async #handleHead(run: BatchRun<C>): Promise<void> {
    run.handling = null;
    run.processed += 1;
    await this.#process(run, { event: null, state: run.state, previousState: run.state, delivery: { caughtUp: true } });
  }

  #process(
    run: BatchRun<C>,
    call: Pick<ProcessEventArgs<C>, "event" | "state" | "previousState" | "delivery">,
  ): Promise<void> | undefined {
    if (this.#processor.processEvent === StreamProcessor.prototype.processEvent) return undefined;
    return new EventTurn(run, call.event).run((actions) => this.#processor.processEvent({ ...call, ...actions }));
  }

  async #endBatch(previousState: ProcessorState<C>, run: BatchRun<C>, caughtUp: boolean): Promise<void> {
    if (run.processed === 0 || this.#processor.processBatchEnd === undefined) return;
    const { state } = run;
    await new EventTurn(run, run.handling).run((actions) =>
      this.#processor.processBatchEnd?.({ state, previousState, delivery: { caughtUp }, ...actions }),
    );
  }

  #reduce(event: ConsumedEvent<C>, state: ProcessorState<C>, onFailure: (error: unknown) => void): ProcessorState<C> {
    try {
      const next: unknown = this.#processor.reduce({ event, state });
      if (next instanceof Promise) {
        next.catch(() => undefined);
        throw codedError(
          "INVALID_INPUT",
          `processor ${this.#processor.contract.slug}: reduce must be synchronous; it answered a promise`,
        );
      }
      return next === undefined ? state : next;
    } catch (thrown) {
      onFailure(thrown);
      return state;
    }
  }

  /** Durable events with `after` < offset ≤ `through`, read page by page. */
  async *#log(after: number, through: number): AsyncGenerator<StreamEvent, void> {
    const { consumes } = this.#processor.contract;
    const types = consumes === "*" || consumes.length > maxFilterTypes ? {} : { types: consumes };
    if (consumes.length === 0) return;
    let page: EventsPage;
    for (let from = after; from < through; from = page.scannedThroughOffset) {
      page = await this.#stream.readEvents({ afterOffset: from, limit: readPage, ...types });
      for (const event of page.events) {
        if (event.offset > through) return;
        if (event.ephemeral !== true) yield event;
      }
      if (page.atHead) return;
      if (page.scannedThroughOffset <= from)
        throw codedError("INTERNAL", `a read after offset ${from} made no progress and is not at the head`, { afterOffset: from });
    }
  }

  #assertFits(state: ProcessorState<C>): void {
    const json = JSON.stringify(state) as string | undefined;
    const { slug } = this.#processor.contract;
    if (json === undefined) throw codedError("INVALID_INPUT", `processor ${slug}: the state is not JSON`, { slug });
    if (!exceedsUtf8(json, maxStateBytes)) return;
    const bytes = utf8Length(json);
    this.#refused = codedError(
      "REDUCE_CHECKPOINT_TOO_LARGE",
      `processor ${slug}: the state has ${bytes} bytes; at most ${maxStateBytes} are kept`,
      { slug, bytes, maxStateBytes },
    );
    throw this.#refused;
  }

  #newRun(): BatchRun<C> {
    const { contract } = this.#processor;
    const budget = new WriteBudget();
    const failures: BackgroundFailure[] = [];
    const work = new BackgroundWork((error, offset) => {
      failures.push({
        offset,
        code: errorCode(error, "CODE_FAILED"),
        message: error instanceof Error ? error.message : String(error),
      });
      this.#report({ kind: "background-failed", slug: contract.slug, offset, type: null, error });
    });
    const run: BatchRun<C> = {
      contract,
      state: undefined,
      processed: 0,
      handling: null,
      emits: [],
      work,
      failures,
      append: (events) => this.#stream.append(events),
      buffer: (events: readonly StampedEvent[]) => {
        budget.take(events);
        run.emits.push(...events.map(({ event }) => event));
      },
      background: (task, offset) => work.add(task, offset),
    };
    return run;
  }

  #problem(kind: "malformed-payload" | "reduce-failed", event: StreamEvent, error: unknown): void {
    this.#report({ kind, slug: this.#processor.contract.slug, offset: event.offset, type: event.type, error });
  }
}

const reportToConsole: ReportProblem = (problem) => {
  // eslint-disable-next-line no-console -- in an isolate the console is the log
  console.error(problemSentence(problem), problem.error);
};

/** Throws INVALID_INPUT when a host sends events out of order or outside the range they are said to fill. */
function assertBatch({ events, range }: EventBatch): void {
  let last = range.after;
  const inOrder = events.every((event) => {
    const follows = event.offset > last && event.offset <= range.through;
    last = event.offset;
    return follows;
  });
  if (!inOrder || range.through < range.after || range.after < 0) {
    throw codedError(
      "INVALID_INPUT",
      `a batch of ${events.length} events does not fill its range ${range.after}–${range.through} in order`,
    );
  }
}
