/** What the engine needs from its host and what it answers. A host is a runner, an isolate, a test or a simulation. */
import type { EventsPage, ReadEventsArgs } from "../api/context.js";
import type { ErrorCode } from "../lib/coded-error.js";
import type { EventInput, StreamEvent } from "./event.js";

/** The log of the processor's context. */
export interface ProcessorStream {
  readonly append: (events: readonly EventInput[]) => Promise<StreamEvent[]>;
  readonly readEvents: (args: ReadEventsArgs) => Promise<EventsPage>;
}

/** The state folded from every event through `offset` by `version` of the processor. */
export interface ProcessorCheckpoint<State = unknown> {
  readonly version: string;
  readonly offset: number;
  readonly state: State;
}

/** Where the engine keeps its checkpoint. */
export interface ProcessorStorage<State = unknown> {
  read(): Promise<ProcessorCheckpoint<State> | null>;
  /** Keeps the checkpoint and owes the emits, both or neither. After a throw the engine reads again before it goes on. */
  write(checkpoint: ProcessorCheckpoint<State>, emits: readonly EventInput[]): Promise<void>;
}

/** Timers of the host, so that the engine runs under a simulated clock. */
export interface Timers {
  /** Calls back once after `delayMs`; the answer cancels it. */
  after(delayMs: number, callback: () => void): () => void;
}

/** Events of one context in offset order, and what they prove about its log. */
export interface EventBatch {
  readonly events: readonly StreamEvent[];
  /** Every event for this processor with `after` < offset ≤ `through` is in `events`. */
  readonly range: { readonly after: number; readonly through: number };
  /** True when `through` was the head of the log. */
  readonly atHead: boolean;
}

export type BatchAnswer<State = unknown> = CheckpointAnswer<State> | SettledAnswer;

/** The batch is done but for its background work; nothing of it needs to be delivered again. */
export interface CheckpointAnswer<State = unknown> extends ProcessorCheckpoint<State> {
  readonly kind: "checkpoint";
  /** Events to append to the processor's context, in order, before the next batch. */
  readonly emits: readonly EventInput[];
  /** Background works that start when the next answer is asked for; keep a claim until `settled` when there are any. */
  readonly backgroundCount: number;
}

/** All background work of the batch has ended. */
export interface SettledAnswer {
  readonly kind: "settled";
  readonly failures: readonly BackgroundFailure[];
}

export interface BackgroundFailure {
  /** The event whose processing started the work, or null at the head without one. */
  readonly offset: number | null;
  /** The error's own code, or CODE_FAILED. */
  readonly code: ErrorCode;
  readonly message: string;
}

/** Something that went wrong without failing the batch. */
export interface ProcessorProblem {
  readonly kind: "malformed-payload" | "reduce-failed" | "background-failed";
  readonly slug: string;
  readonly offset: number | null;
  readonly type: string | null;
  readonly error: unknown;
}

export type ReportProblem = (problem: ProcessorProblem) => void;
