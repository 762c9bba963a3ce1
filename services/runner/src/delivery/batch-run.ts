/** One batch while its code runs: first to its checkpoint, within a bound, then, once that is committed, to the end of its background work. */
import { setTimeout as pause } from "node:timers/promises";
import type { Log } from "@iterate-platform/service/log";
import type { ExecutionClaims } from "@iterate-platform/service/trust";
import { codedError } from "iterate/lib";
import type { BatchAnswer, CheckpointAnswer } from "iterate/stream/processor";
import type { Batch, BatchHost } from "./batch.js";

export interface BatchRunScope {
  readonly claims: ExecutionClaims;
  readonly mint: (claims: ExecutionClaims) => Promise<string>;
  readonly traceparent: string;
  readonly checkpointMs: number;
  /** The lease's: everything ends with it. */
  readonly signal: AbortSignal;
}

/** Longest wait for code that was stopped. */
const cancelMs = 2_000;

export class BatchRun {
  readonly #stop = new AbortController();
  readonly #scope: BatchRunScope;
  readonly #answers: AsyncIterator<BatchAnswer, unknown>;

  constructor(host: BatchHost, batch: Batch, scope: BatchRunScope) {
    this.#scope = scope;
    let token: Promise<string> | undefined;
    const signal = AbortSignal.any([scope.signal, this.#stop.signal]);
    const { claims, traceparent, mint } = scope;
    this.#answers = host
      .run(batch, { claims, traceparent, signal, execution: () => (token ??= mint(claims)) })
      [Symbol.asyncIterator]();
  }

  /** @throws what the code or its process failed with; ISOLATE_DEADLINE beyond the bound. */
  async checkpoint(): Promise<CheckpointAnswer> {
    const { checkpointMs } = this.#scope;
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(codedError("ISOLATE_DEADLINE", `the batch was not done within ${checkpointMs} ms`)),
      checkpointMs,
    );
    try {
      const result = await Promise.race([this.#answers.next(), late.promise]);
      if (result.done === true || result.value.kind !== "checkpoint")
        throw codedError("ISOLATE_OUTPUT", "the processor ended without a checkpoint");
      return result.value;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Stops the code and waits, within a bound, until it makes no call any more. Never rejects. */
  async cancel(reason: unknown): Promise<void> {
    this.#stop.abort(reason);
    const ended = Promise.resolve(this.#answers.return?.()).catch(() => undefined);
    await Promise.race([ended, pause(cancelMs, undefined, { ref: false })]);
  }

  /** Lets background work run to its end; failures are reported and fail nothing. Never rejects. */
  async settled(report: Log): Promise<void> {
    try {
      for (;;) {
        const result = await this.#answers.next();
        if (result.done === true) return;
        if (result.value.kind !== "settled") continue;
        for (const { offset, code, message } of result.value.failures)
          report.warn("background work failed", { code, reason: message, ...(offset === null ? {} : { offset }) });
      }
    } catch (error) {
      if (!this.#scope.signal.aborted) report.warn("background work was cut", { error });
    }
  }
}
