/** One batch on its way to a processor, whatever runs it. */
import type { StreamEvent } from "iterate/api";
import type { ExecutionClaims } from "@iterate-platform/service/trust";
import type { BatchAnswer, ProcessorCheckpoint } from "iterate/stream/processor";
import type { ContextKey, StoredCheckpoint } from "./contract.js";

/** Under what code runs. */
export interface ExecutionScope {
  readonly claims: ExecutionClaims;
  /** The claims' token, minted when first needed. */
  execution(): Promise<string>;
  /** Of the append that is reacted to; empty when it was not traced. */
  readonly traceparent: string;
  /** Aborts when the lease is lost or the batch is given up. */
  readonly signal: AbortSignal;
}

export interface Batch extends ContextKey {
  /** Subscription name. */
  readonly name: string;
  readonly checkpoint: StoredCheckpoint | null;
  readonly events: readonly StreamEvent[];
  readonly range: { readonly after: number; readonly through: number };
  readonly atHead: boolean;
  /** Alone in a fresh process. */
  readonly quarantine: boolean;
  /** Milliseconds until the whole invocation, background work included, is ended. */
  readonly deadlineMs: number;
}

/**
 * The checkpoint a processor's engine starts the batch from. Delivery may begin in the middle of a log: what lies before is then
 * folded by the processor itself, without effects, as after a change of its version.
 */
export function engineCheckpoint({ checkpoint, range }: Batch): ProcessorCheckpoint | null {
  if (checkpoint !== null)
    return { version: checkpoint.version, offset: range.after, state: JSON.parse(checkpoint.state) as unknown };
  return range.after === 0 ? null : { version: "", offset: range.after, state: null };
}

/** Runs batches of one subscription target. */
export interface BatchHost {
  /** What runs, as claims name it: `config@<digest>` or `builtin:<name>`. */
  readonly code: string;
  /** True when what it emits and appends is the platform's own. */
  readonly isPlatform: boolean;
  /** Milliseconds until the checkpoint, when it may take longer than usual. */
  readonly checkpointMs?: number;
  /**
   * `checkpoint`, then `settled`; leaving the loop cancels. Throws what the code or its process failed with; `data.killed` and
   * `data.alone` tell of a process that was ended.
   */
  run(batch: Batch, scope: ExecutionScope): AsyncIterable<BatchAnswer>;
}
