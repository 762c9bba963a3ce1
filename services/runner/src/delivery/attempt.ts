/**
 * One attempt to deliver a batch: resolve the target, run the batch under its own claims, check what came back, and commit cursor,
 * state and emitted events together. Background work of the batch goes on after the commit and is bounded in number and time.
 */
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import { failpoint } from "@iterate-platform/service/failpoints";
import type { Log } from "@iterate-platform/service/log";
import type { Queryable } from "@iterate-platform/service/postgres";
import { toStreamEvent } from "@iterate-platform/service/stream-event";
import { currentTraceparent, linksFrom, withNewRoot } from "@iterate-platform/service/tracing";
import type { ExecutionClaims } from "@iterate-platform/service/trust";
import type { Span } from "@opentelemetry/api";
import { codedError } from "iterate/lib";
import { maxStateBytes, type CheckpointAnswer } from "iterate/stream/processor";
import { assertEmits } from "../itx/wall.js";
import type { Lease } from "../lease/lease.js";
import type { Batch, BatchHost } from "./batch.js";
import { BatchRun } from "./batch-run.js";
import { afterSuccess, type AttemptFailure, type Setback } from "./charge.js";
import { RowChanged, type ContextKey, type DeliveryRow, type OwedEvent, type StoredCheckpoint } from "./contract.js";
import { checkpointOf, commitBatch, type BatchCommit, type Fence } from "./delivery.sql.js";
import { attemptFailure, setbackOfRun } from "./failure.js";
import { emitted, type Attribution } from "./facts.js";
import type { Hosts } from "./hosts.js";
import { commonPrincipal, deepest, depthOf, type BatchPage } from "./page.js";
import type { Target } from "./target.js";

export interface AttemptTimes {
  /** Until the batch's checkpoint. */
  readonly checkpointMs: number;
  /** Until its background work is ended. */
  readonly invocationMs: number;
}

export const attemptTimes: AttemptTimes = { checkpointMs: 60_000, invocationMs: 600_000 };

export interface AttemptsParts {
  readonly db: Queryable;
  readonly hosts: Hosts;
  readonly mint: (claims: ExecutionClaims) => Promise<string>;
  readonly newId: () => string;
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly report: Log;
  readonly times?: AttemptTimes;
  /** Told of every attempt that ended. */
  readonly observe?: (outcome: AttemptOutcome["kind"] | Setback["kind"], events: number, ms: number) => void;
  /** Most batches of one subscription whose background work goes on. */
  readonly maxBackground?: number;
}

export interface Attempt {
  readonly lease: Lease;
  readonly row: DeliveryRow;
  readonly fence: Fence;
  readonly page: BatchPage;
  readonly target: Target;
}

export type AttemptOutcome = (
  | { readonly kind: "committed"; readonly row: DeliveryRow; readonly owes: boolean }
  /** Nothing answers to the target. */
  | { readonly kind: "missing"; readonly failure: AttemptFailure }
  | { readonly kind: "setback"; readonly setback: Setback }
) & {
  /** Of the attempt's own trace; absent when it is not traced. */
  readonly traceId?: string;
};

/** Tokens outlive the work they are made for by this much. */
const tokenGraceS = 60;
/** Appends a delivery's span links to. */
const maxLinks = 32;
/** Owed events are sent within the life of a token made for them. */
const sendTokenS = 300;

export class Attempts {
  readonly #parts: AttemptsParts;
  readonly #times: AttemptTimes;
  readonly #background = new Map<number, Set<Promise<void>>>();

  constructor(parts: AttemptsParts) {
    this.#parts = parts;
    this.#times = parts.times ?? attemptTimes;
  }

  /**
   * Runs and commits one batch.
   * @throws RowChanged when the row was overtaken; UNAVAILABLE when the database did not answer, and then it may be committed.
   */
  async run(attempt: Attempt): Promise<AttemptOutcome> {
    const { row, page, lease } = attempt;
    const attributes = {
      owner: row.owner,
      context: row.path,
      subscription: row.name,
      events: page.events.length,
      partition: lease.partition,
      epoch: Number(lease.epoch),
    };
    const links = linksFrom(new Set(page.events.slice(0, maxLinks).map(({ traceparent }) => traceparent)));
    // A delivery is no part of the append that caused it: it may come much later, again, and for many appends at once.
    const startedAt = performance.now();
    const outcome = await withNewRoot("deliver", { kind: "consumer", links, attributes }, async (span) => {
      const traceId = currentTraceparent().split("-")[1];
      const ended = await this.#run(attempt, span);
      return traceId === undefined ? ended : { ...ended, traceId };
    });
    this.#parts.observe?.(
      outcome.kind === "setback" ? outcome.setback.kind : outcome.kind,
      page.events.length,
      performance.now() - startedAt,
    );
    return outcome;
  }

  async #run(attempt: Attempt, span: Span): Promise<AttemptOutcome> {
    const { row, page, target, lease } = attempt;
    await this.#roomForBackground(row.id, lease.signal);
    let host: BatchHost;
    let checkpoint: StoredCheckpoint | null;
    try {
      [host, checkpoint] = await Promise.all([this.#parts.hosts.resolve(target, row), this.#checkpoint(row)]);
    } catch (error) {
      const failure = attemptFailure(error);
      if (failure.code === "NO_FACET") return { kind: "missing", failure };
      return { kind: "setback", setback: { kind: "away", waits: 1, failure } };
    }
    const run = this.#begin(attempt, host, checkpoint);
    let stored: StoredCheckpoint | null;
    let owed: OwedEvent[];
    try {
      const answer = await run.checkpoint();
      owed = this.#owed(answer, page, host);
      stored = storedState(answer, checkpoint);
    } catch (error) {
      await run.cancel(error);
      lease.signal.throwIfAborted();
      span.setAttribute("error.type", attemptFailure(error).code);
      return { kind: "setback", setback: setbackOfRun(error, row.charge.suspect) };
    }
    try {
      const committed = await this.#commit(attempt, stored, owed);
      this.#goOn(row, run);
      return { kind: "committed", row: committed, owes: owed.length > 0 };
    } catch (error) {
      await run.cancel(error);
      throw error;
    }
  }

  /** Commits a batch as delivered although its code was refused: it leaves no state and nothing to send. */
  async skip(attempt: Attempt): Promise<DeliveryRow> {
    return await this.#commit(attempt, null, []);
  }

  /** A token for appending what a subscription owes. */
  async executionFor(
    owed: OwedEvent,
    { owner, path }: ContextKey,
    subscription: string,
    { partition, epoch }: Lease,
  ): Promise<string> {
    return await this.#parts.mint({
      owner,
      context: path,
      code: owed.code,
      subscription,
      partition,
      epoch: Number(epoch),
      cause: owed.cause,
      ...(owed.principal === null ? {} : { principal: owed.principal }),
      scope: [],
      exp: Math.floor(this.#parts.nowMs() / 1_000) + sendTokenS,
    });
  }

  #begin({ row, page, lease }: Attempt, host: BatchHost, checkpoint: StoredCheckpoint | null): BatchRun {
    const { owner, path, name } = row;
    const attribution = this.#attribution(page.events);
    const claims: ExecutionClaims = {
      owner,
      context: path,
      code: host.code,
      subscription: name,
      partition: lease.partition,
      epoch: Number(lease.epoch),
      cause: attribution.cause,
      ...(attribution.principal === null ? {} : { principal: attribution.principal }),
      scope: [],
      exp: Math.floor((this.#parts.nowMs() + this.#times.invocationMs) / 1_000) + tokenGraceS,
    };
    const batch: Batch = {
      owner,
      path,
      name,
      checkpoint,
      events: page.events.map((event) => toStreamEvent(event, path)),
      range: page.range,
      atHead: page.atHead,
      quarantine: row.charge.suspect,
      deadlineMs: this.#times.invocationMs,
    };
    return new BatchRun(host, batch, {
      claims,
      mint: this.#parts.mint,
      traceparent: attribution.traceparent,
      checkpointMs: host.checkpointMs ?? this.#times.checkpointMs,
      signal: lease.signal,
    });
  }

  /** Code that runs because of an event is one reaction deeper than it. */
  #attribution(events: readonly Event[]): Attribution {
    const of = attributionOf(events);
    const chain =
      of.cause.chain === ""
        ? `${new Date(this.#parts.nowMs()).toISOString()} with delivery ~${Math.floor(this.#parts.random() * 2 ** 52).toString(36)}`
        : of.cause.chain;
    return { ...of, cause: { chain, depth: of.cause.depth + 1 }, traceparent: currentTraceparent() || of.traceparent };
  }

  /** What the batch emits, checked before any of it is kept. */
  #owed(answer: CheckpointAnswer, { events, range }: BatchPage, host: BatchHost): OwedEvent[] {
    if (answer.offset !== range.through)
      throw codedError(
        "ISOLATE_OUTPUT",
        `the processor answered a checkpoint at ${answer.offset} for a batch through ${range.through}`,
      );
    if (!host.isPlatform) assertEmits(answer.emits);
    const attribution = this.#attribution(events);
    return answer.emits.map((event) => emitted(this.#parts.newId(), event, host.code, attribution));
  }

  async #commit(
    { row, fence, page }: Attempt,
    checkpoint: StoredCheckpoint | null,
    owed: readonly OwedEvent[],
  ): Promise<DeliveryRow> {
    const commit: BatchCommit = {
      cursor: page.range.through,
      caughtUp: page.atHead,
      charge: afterSuccess(row.charge, page.range.through),
      checkpoint,
      owed,
    };
    await failpoint("delivery.before-commit");
    const { rows } = await this.#parts.db.query<{ version: string; behind_through: string | null }>(commitBatch(fence, commit));
    const [changed] = rows;
    if (changed === undefined) throw new RowChanged("the row was changed by someone else");
    await failpoint("delivery.after-commit");
    return {
      ...row,
      cursor: commit.cursor,
      caughtUp: commit.caughtUp,
      status: "active",
      charge: commit.charge,
      dueInMs: null,
      behindThrough: changed.behind_through === null ? null : Number(changed.behind_through),
      epoch: fence.epoch,
      version: BigInt(changed.version),
    };
  }

  async #checkpoint(row: DeliveryRow): Promise<StoredCheckpoint | null> {
    const { rows } = await this.#parts.db.query<StoredCheckpoint>(checkpointOf(row.id));
    return rows[0] ?? null;
  }

  #goOn(row: DeliveryRow, run: BatchRun): void {
    const running = this.#background.get(row.id) ?? new Set<Promise<void>>();
    this.#background.set(row.id, running);
    const settled = run
      .settled(this.#parts.report.child({ owner: row.owner, context: row.path, subscription: row.name }))
      .finally(() => {
        running.delete(settled);
        if (running.size === 0) this.#background.delete(row.id);
      });
    running.add(settled);
  }

  async #roomForBackground(id: number, signal: AbortSignal): Promise<void> {
    for (
      let running = this.#background.get(id);
      (running?.size ?? 0) >= (this.#parts.maxBackground ?? 8);
      running = this.#background.get(id)
    ) {
      signal.throwIfAborted();
      await Promise.race([...(running ?? [])]);
    }
  }
}

/** The state to store; null when it is what is stored. @throws REDUCE_CHECKPOINT_TOO_LARGE. */
function storedState({ version, state }: CheckpointAnswer, before: StoredCheckpoint | null): StoredCheckpoint | null {
  const text = JSON.stringify(state) ?? "null";
  if (before !== null && before.version === version && before.state === text) return null;
  const bytes = Buffer.byteLength(text);
  if (bytes > maxStateBytes)
    throw codedError("REDUCE_CHECKPOINT_TOO_LARGE", `the state has ${bytes} bytes; at most ${maxStateBytes} are kept`, {
      bytes,
      maxStateBytes,
    });
  return { version, state: text };
}

/** Whose reaction a batch is: its deepest event's. */
export function attributionOf(events: readonly Event[]): Attribution {
  const event = deepest(events);
  return {
    cause: { chain: event?.source?.cause?.chain ?? "", depth: event === undefined ? 0 : depthOf(event) },
    principal: commonPrincipal(events),
    traceparent: event?.traceparent ?? "",
  };
}
