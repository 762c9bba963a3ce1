/**
 * The decision of the log, without input or output: given what is known of a context and the appends that wait for it, which
 * events land where, and what each append is answered. Appends are taken in order and each lands whole or not at all; all that
 * land make one commit.
 *
 * Memory may be behind other processes. A plan that lands is proven by the fence of its commit; a refusal that rests on the state
 * has no such proof, so it is given only when the state was confirmed after the append arrived (`isConfirmed`): until then the
 * plan answers `confirm`.
 */
import { itx } from "iterate/events";
import { codedError, type CodedError } from "iterate/lib";
import type { Cause, Writer } from "../caller/contract.js";
import { isTooDeep, loopLimitError, loopLimitFact } from "../caller/loop-guard.js";
import type { CoreState } from "../core/contract.js";
import { checkAgainstCore, foldCore } from "../core/fold.js";
import { landsWhilePaused } from "../core/pause.js";
import { bodyDigest } from "../json/body.js";
import { assertAnswersAppend, assertMayChange } from "../rules/jail.js";
import { isHeldToRules } from "../rules/wall.js";
import { isClosed, type ContextHead, type PlacedEphemeral, type PlacedEvent, type StorableEvent } from "./contract.js";
import { blockOffsets } from "./offset-blocks.js";

/** How far above anything seen the log continues after it was restored from a backup. */
export const restoreGap = 2 ** 20;

/** One append as the plan sees it. */
export interface PlannedAppend {
  readonly appendId: string;
  readonly events: readonly StorableEvent[];
  readonly writer: Writer;
}

/** An event that is committed under a key. */
export interface StoredKey {
  readonly offset: number;
  readonly createdAtUs: number;
  readonly digest: Buffer;
  /** JSON of its source. */
  readonly source: string;
}

export interface PlanInput {
  /** The context as known; `commitNo` 0 when it is not born. */
  readonly head: ContextHead;
  readonly appends: readonly PlannedAppend[];
  /** What was looked up: the event under a key, or `null` when there was none at `head`. */
  readonly known: ReadonlyMap<string, StoredKey | null>;
  /** True when `head` and every key of the appends were read after the appends arrived. */
  readonly isConfirmed: boolean;
  /** Generation of the shard. */
  readonly generation: number;
  /** Next offset of the block of reserved offsets that this process holds in the context; `null` when it holds none. */
  readonly nextInBlock: number | null;
}

export interface PlannedRow extends PlacedEvent {
  /** Set on the first event an append writes. */
  readonly appendId: string | null;
}

/** Where an event of an append is; `createdAtUs` is `null` when it is part of the planned commit. */
export interface PlannedReceipt {
  readonly offset: number;
  readonly createdAtUs: number | null;
  readonly existing: boolean;
  /** Of an ephemeral event. */
  readonly source?: string;
}

export type Outcome =
  | { readonly kind: "accepted"; readonly receipts: readonly PlannedReceipt[] }
  | { readonly kind: "refused"; readonly error: CodedError };

export interface PlannedCommit {
  readonly commitNo: number;
  readonly firstOffset: number;
  /** Below `firstOffset` when the commit holds no event. */
  readonly lastOffset: number;
  readonly reservedThrough: number;
  readonly lastControl: number;
  readonly runnerEpoch: number;
  /** In offset order; ephemeral events take the offsets between them. */
  readonly rows: readonly PlannedRow[];
  /** Keys of `rows` that nobody has looked up: the commit must not land if one is taken. */
  readonly keysToCheck: readonly string[];
  readonly core: CoreState;
}

export type Plan =
  | { readonly kind: "confirm" }
  | {
      readonly kind: "decided";
      /** One for each append, in order. */
      readonly outcomes: readonly Outcome[];
      /** `null` when nothing is to be written. */
      readonly commit: PlannedCommit | null;
      /** To be told once the commit has landed; at once when there is none. In offset order. */
      readonly ephemerals: readonly PlacedEphemeral[];
      /** The first offset that is not used. */
      readonly nextOffset: number;
      /** Appends answered with a stored event of another body, because the same handler wrote it before. */
      readonly divergences: number;
    };

export function planCommit(input: PlanInput): Plan {
  return new Planner(input).plan();
}

/** Says that an append cannot be judged from what is known. */
class Unconfirmed extends Error {}

class Planner {
  readonly #input: PlanInput;
  readonly #isRestored: boolean;
  readonly #firstOffset: number;
  readonly #preamble: number;
  #nextOffset: number;
  #rows: PlannedRow[] = [];
  #ephemerals: PlacedEphemeral[] = [];
  /** Index into `#rows` by key. */
  #keys = new Map<string, number>();
  #core: CoreState;
  #epoch: number;
  #hasControl = false;
  #divergences = 0;
  /** Whose append made the commit: the log's own records belong to the same chain. */
  #cause: Cause | null = null;

  constructor(input: PlanInput) {
    this.#input = input;
    const { head, generation, nextInBlock } = input;
    this.#core = head.core;
    this.#epoch = head.runnerEpoch;
    this.#isRestored = head.commitNo > 0 && head.generation < generation;
    const afterAll = Math.max(head.lastOffset, head.reservedThrough) + 1;
    this.#firstOffset = this.#isRestored ? afterAll + restoreGap : (nextInBlock ?? afterAll);
    this.#nextOffset = this.#firstOffset;
    if (head.commitNo === 0) this.#add(created(head, unnamed), null);
    if (this.#isRestored) this.#add(logRestored(head, unnamed), null);
    this.#preamble = this.#rows.length;
  }

  plan(): Plan {
    const { head } = this.#input;
    if (head.unreadable !== undefined) return this.#refused(head.unreadable);
    if (isClosed(head))
      return this.#refused(codedError("UNAVAILABLE", "the context is being replaced by an import; repeat the append"));
    const outcomes: Outcome[] = [];
    for (const append of this.#input.appends) {
      const undo = this.#mark();
      try {
        outcomes.push({ kind: "accepted", receipts: this.#append(append) });
      } catch (thrown) {
        if (thrown instanceof Unconfirmed) return { kind: "confirm" };
        undo();
        outcomes.push({ kind: "refused", error: thrown as CodedError });
        if (isTooDeep(append.writer.cause)) this.#recordLoopLimit(append.writer);
      }
    }
    return {
      kind: "decided",
      outcomes,
      commit: this.#commit(),
      ephemerals: this.#ephemerals,
      nextOffset: this.#nextOffset,
      divergences: this.#divergences,
    };
  }

  /** Nothing may be decided about a context whose state this release cannot read. */
  #refused(error: CodedError): Plan {
    const outcomes = this.#input.appends.map((): Outcome => ({ kind: "refused", error }));
    return { kind: "decided", outcomes, commit: null, ephemerals: [], nextOffset: this.#nextOffset, divergences: 0 };
  }

  #append({ appendId, events, writer }: PlannedAppend): PlannedReceipt[] {
    this.#raiseEpoch(writer);
    this.#checkOccurrence(events.at(-1));
    const receipts: PlannedReceipt[] = [];
    let isFirst = true;
    for (const event of events) {
      const existing = this.#existing(event, writer);
      if (existing !== null) {
        receipts.push(existing);
        continue;
      }
      this.#check(event, writer);
      this.#cause ??= writer.cause;
      if (event.isEphemeral) {
        receipts.push({ offset: this.#addEphemeral(event), createdAtUs: null, existing: false, source: event.source });
        continue;
      }
      receipts.push({ offset: this.#add(event, isFirst ? appendId : null), createdAtUs: null, existing: false });
      isFirst = false;
    }
    return receipts;
  }

  /** Epochs of the context's own partition are compared; a writer of another partition proves nothing about this one. */
  #raiseEpoch({ lease }: Writer): void {
    if (lease === null || lease.partition !== this.#input.head.partition) return;
    if (lease.epoch < this.#epoch) {
      // It may have landed before the newer owner's commit.
      this.#mustBeConfirmed();
      throw codedError(
        "STALE_EPOCH",
        `epoch ${lease.epoch} of partition ${lease.partition} has been followed by epoch ${this.#epoch}`,
        { epoch: lease.epoch, current: this.#epoch },
      );
    }
    this.#epoch = lease.epoch;
  }

  #existing(event: StorableEvent, writer: Writer): PlannedReceipt | null {
    const key = event.idempotencyKey;
    if (key === null) return null;
    const index = this.#keys.get(key);
    if (index !== undefined) {
      const { event: earlier, offset } = this.#rows[index]!;
      this.#compare(event, writer, { offset, digest: earlier.bodyDigest!, source: earlier.source });
      return { offset, createdAtUs: null, existing: true };
    }
    const stored = this.#input.known.get(key);
    if (stored === undefined || stored === null) return null;
    this.#compare(event, writer, stored);
    return { offset: stored.offset, createdAtUs: stored.createdAtUs, existing: true };
  }

  #compare(event: StorableEvent, writer: Writer, stored: { offset: number; digest: Buffer; source: string }): void {
    if (stored.digest.equals(event.bodyDigest!)) return;
    if (writer.kind === "code" && isSameHandling(event.source, stored.source)) {
      this.#divergences += 1;
      return;
    }
    throw codedError(
      "IDEMPOTENCY_CONFLICT",
      `the idempotency key ${JSON.stringify(event.idempotencyKey)} names the event at offset ${stored.offset}, which has another body`,
      {
        existingOffset: stored.offset,
      },
    );
  }

  #check(event: StorableEvent, writer: Writer): void {
    if (isHeldToRules(writer)) this.#confirmed(() => assertAnswersAppend(this.#core));
    if (this.#core.pause !== null && !landsWhilePaused(event.type, event.control)) {
      this.#mustBeConfirmed();
      const { pausedAtOffset } = this.#core.pause;
      throw codedError("STREAM_PAUSED", `the context has been paused since offset ${pausedAtOffset}, until ${itx.resumed.type}`, {
        pausedAtOffset,
      });
    }
    if (isTooDeep(writer.cause)) {
      // Whether the key is taken must be known first: a repeated append is answered, however deep.
      if (event.idempotencyKey !== null) this.#mustBeConfirmed();
      throw loopLimitError(writer.cause);
    }
    if (event.expectedOffset !== null && event.expectedOffset !== this.#nextOffset) {
      this.#mustBeConfirmed();
      throw codedError(
        "OFFSET_CONFLICT",
        `the event was to land at offset ${event.expectedOffset}; the next one is ${this.#nextOffset}`,
        {
          expected: event.expectedOffset,
          actual: this.#nextOffset,
        },
      );
    }
    if (event.control !== undefined) {
      const control = { offset: this.#nextOffset, type: event.type, payload: event.control.payload };
      this.#confirmed(() => {
        assertMayChange(this.#core.rules, control, writer);
        checkAgainstCore(this.#core, control);
      });
    }
  }

  /** What `judge` refuses is refused by a state that was confirmed. */
  #confirmed(judge: () => void): void {
    try {
      judge();
    } catch (refusal) {
      this.#mustBeConfirmed();
      throw refusal;
    }
  }

  /** A firing lands whole or not at all: its record is judged before anything it records. */
  #checkOccurrence(record: StorableEvent | undefined): void {
    if (record?.type !== itx.scheduleFired.type || record.control === undefined) return;
    const { idempotencyKey: key, type, control } = record;
    this.#confirmed(() => {
      if (key !== null && (this.#keys.has(key) || (this.#input.known.get(key) ?? null) !== null))
        throw codedError("OFFSET_CONFLICT", `the occurrence ${JSON.stringify(key)} has been fired`);
      checkAgainstCore(this.#core, { offset: this.#nextOffset, type, payload: control.payload });
    });
  }

  #mustBeConfirmed(): void {
    if (!this.#input.isConfirmed) throw new Unconfirmed();
  }

  #add(event: StorableEvent, appendId: string | null): number {
    const offset = this.#nextOffset++;
    if (event.control !== undefined) {
      this.#hasControl = true;
      this.#core = foldCore(this.#core, { offset, type: event.type, payload: event.control.payload });
    }
    if (event.idempotencyKey !== null) this.#keys.set(event.idempotencyKey, this.#rows.length);
    this.#rows.push({ event, appendId, offset });
    return offset;
  }

  #addEphemeral(event: StorableEvent): number {
    const offset = this.#nextOffset++;
    this.#ephemerals.push({ event, offset, after: this.#lastOffset });
    return offset;
  }

  /** Of the last stored event. */
  get #lastOffset(): number {
    return this.#rows.at(-1)?.offset ?? this.#input.head.lastOffset;
  }

  /** Only in a context that exists: a chain beyond the limit gives birth to none. */
  #recordLoopLimit({ cause }: Writer): void {
    if (this.#input.head.commitNo === 0) return;
    const fact = loopLimitFact(cause);
    if (this.#keys.has(fact.idempotencyKey) || (this.#input.known.get(fact.idempotencyKey) ?? null) !== null) return;
    this.#add(platformEvent(this.#input.head, fact.type, fact.payload, { key: fact.idempotencyKey, cause }), null);
    this.#cause ??= cause;
  }

  #attributed(): readonly PlannedRow[] {
    const cause = this.#cause;
    if (this.#preamble === 0 || cause === null) return this.#rows;
    return this.#rows.map((row, index) =>
      index < this.#preamble ? { ...row, event: { ...row.event, source: platformSource(this.#input.head, cause) } } : row,
    );
  }

  /** A point to return to when an append is refused half-way. */
  #mark(): () => void {
    const length = this.#rows.length;
    const ephemerals = this.#ephemerals.length;
    const nextOffset = this.#nextOffset;
    const core = this.#core;
    const epoch = this.#epoch;
    const hasControl = this.#hasControl;
    const divergences = this.#divergences;
    const cause = this.#cause;
    return () => {
      for (const { event } of this.#rows.splice(length)) if (event.idempotencyKey !== null) this.#keys.delete(event.idempotencyKey);
      this.#ephemerals.length = ephemerals;
      this.#nextOffset = nextOffset;
      this.#core = core;
      this.#epoch = epoch;
      this.#hasControl = hasControl;
      this.#divergences = divergences;
      this.#cause = cause;
    };
  }

  #commit(): PlannedCommit | null {
    const { head, known } = this.#input;
    const isRaised = this.#epoch > head.runnerEpoch;
    const reservedThrough = this.#reservedThrough();
    const isReserving = reservedThrough > this.#ownedThrough;
    if (this.#rows.length === this.#preamble && !isReserving && !(isRaised && head.commitNo > 0)) return null;
    const commitNo = head.commitNo + 1;
    return {
      commitNo,
      firstOffset: this.#rows[0]?.offset ?? this.#firstOffset,
      lastOffset: this.#lastOffset,
      reservedThrough,
      lastControl: this.#hasControl ? commitNo : head.lastControl,
      runnerEpoch: this.#epoch,
      rows: this.#attributed(),
      keysToCheck: [...this.#keys.keys()].filter((key) => !known.has(key)),
      core: this.#core,
    };
  }

  /** Where offsets end that belong to this commit without a reservation: those of its stored events, and of the block it continues. */
  get #ownedThrough(): number {
    const { head } = this.#input;
    return Math.max(this.#lastOffset, head.reservedThrough, this.#isRestored ? this.#firstOffset - 1 : 0);
  }

  /** Whole blocks for the ephemeral events beyond what is owned, so that those which follow need no commit. */
  #reservedThrough(): number {
    const owned = this.#ownedThrough;
    const lacking = (this.#ephemerals.at(-1)?.offset ?? 0) - owned;
    return lacking <= 0 ? owned : owned + blockOffsets * Math.ceil(lacking / blockOffsets);
  }
}

/** The feed shows one trace for each commit: that of its first traced append. */
export function commitTraceparent({ rows }: PlannedCommit): string | null {
  for (const { event } of rows) if (event.traceparent !== null) return event.traceparent;
  return null;
}

/** Stands in the log's own records until it is known whose append they belong to. */
const unnamed: Cause = { chain: "", depth: 0 };

/** Whether two sources are the same processor of the same context, handling the same event. */
function isSameHandling(one: string, other: string): boolean {
  const [a, b] = [one, other].map(
    (source) => JSON.parse(source) as { origin: string; processor?: { slug: string; whileProcessing?: { offset: number } } },
  );
  const offset = a!.processor?.whileProcessing?.offset;
  return (
    offset !== undefined &&
    offset > 0 &&
    a!.origin === b!.origin &&
    a!.processor!.slug === b!.processor?.slug &&
    offset === b!.processor.whileProcessing?.offset
  );
}

function created(head: ContextHead, cause: Cause): StorableEvent {
  const { owner, path } = head.address;
  return platformEvent(head, itx.created.type, JSON.stringify({ owner, path }), { cause, control: { owner, path } });
}

function logRestored(head: ContextHead, cause: Cause): StorableEvent {
  return platformEvent(head, itx.logRestored.type, JSON.stringify({ lostAfter: head.lastOffset }), { cause });
}

/** Types of the records that the log itself makes. */
export const recordTypes: readonly string[] = [itx.created.type, itx.logRestored.type, itx.loopLimit.type];

/** A record that the log itself makes. */
function platformEvent(
  head: ContextHead,
  type: string,
  payloadText: string,
  { key, cause, control }: { key?: string; cause: Cause; control?: unknown },
): StorableEvent {
  const payload = Buffer.from(payloadText);
  return {
    type,
    payload,
    metadata: null,
    idempotencyKey: key ?? null,
    bodyDigest: key === undefined ? null : bodyDigest(type, payload, null),
    expectedOffset: null,
    source: platformSource(head, cause),
    traceparent: null,
    formatVersion: 1,
    control: control === undefined ? undefined : { payload: control },
    isEphemeral: false,
    bytes: payload.length,
  };
}

function platformSource({ address }: ContextHead, cause: Cause): string {
  return JSON.stringify({ origin: address.path, cause, platform: true });
}
