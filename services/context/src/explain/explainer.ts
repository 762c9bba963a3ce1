/**
 * Why something is, or is not, done: what this service knows, confirmed, and what the runner says. A runner that is away leaves unknown
 * what hangs on it, and nothing else.
 */
import { itx } from "iterate/events";
import { codedError, isCodedError } from "iterate/lib";
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import type { CoreState, ScheduleRow, SubscriptionRow } from "../core/contract.js";
import { readableCore, type Heads } from "../log/confirm.js";
import type { ContextAddress } from "../log/contract.js";
import type { Reads } from "../log/page.js";
import { firstDue } from "../schedules/when.js";
import type { Explanation, Reason, RunnerHalf, RunnerKnowledge, Subject } from "./contract.js";
import { pauseReason, runReason, scheduleReason, subscriptionReason, takes } from "./reasons.js";

/** Names that a refusal lists. */
const maxNamed = 10;
const one = { limit: 1, maxBytes: 1_048_576 } as const;
const page = { limit: 1_000, maxBytes: 8_388_608 } as const;

export interface ExplainerParts {
  readonly heads: Heads;
  readonly reads: Reads;
  readonly runner: RunnerKnowledge;
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
}

interface Asked {
  readonly address: ContextAddress;
  readonly core: CoreState;
  readonly headOffset: number;
  readonly signal: AbortSignal;
}

export class Explainer {
  readonly #parts: ExplainerParts;

  constructor(parts: ExplainerParts) {
    this.#parts = parts;
  }

  /** @throws CodedError NOT_FOUND when there is no such thing; OFFSET_TRUNCATED; UNAVAILABLE (retryable). */
  async explain(address: ContextAddress, subject: Subject, signal: AbortSignal): Promise<Explanation> {
    const head = await this.#parts.heads.confirm(address);
    if (head === undefined)
      throw codedError("NOT_FOUND", `there is no context ${JSON.stringify(address.path)}; it is born by its first append`);
    const asked = { address, core: readableCore(head), headOffset: head.lastOffset, signal };
    switch (subject.kind) {
      case "event":
        return this.#event(asked, subject.offset);
      case "subscription":
        return this.#subscription(asked, rowIn(asked.core.subscriptions, "subscription", subject.name));
      case "schedule":
        return this.#schedule(asked, rowIn(asked.core.schedules, "schedule", subject.key));
      case "run":
        return this.#run(asked, subject.offset);
    }
  }

  async #event(asked: Asked, offset: number): Promise<Explanation> {
    const event = await this.#eventAt(asked, offset);
    const taking = Object.values(asked.core.subscriptions).filter((row) => takes(row, { offset, type: event.type }));
    if (taking.length === 0) {
      const others = Object.keys(asked.core.subscriptions).length;
      const sentence = `none of the ${others} subscriptions of this context takes ${event.type} at offset ${offset}`;
      return this.#answer(asked, [{ kind: "nobody", subject: `event ${offset}`, sentence }]);
    }
    const half = await this.#ask(asked, taking, []);
    return this.#answer(
      asked,
      taking.map((row) => subscriptionReason(row, half, { through: offset, isOwed: true })),
      half,
    );
  }

  async #subscription(asked: Asked, row: SubscriptionRow): Promise<Explanation> {
    const half = await this.#ask(asked, [row], []);
    const cursor = half?.deliveries[0]?.cursor;
    const isOwed = cursor === undefined || cursor >= asked.headOffset ? null : await this.#hasAfter(asked, row, cursor);
    return this.#answer(asked, [subscriptionReason(row, half, { through: asked.headOffset, isOwed })], half);
  }

  async #schedule(asked: Asked, row: ScheduleRow): Promise<Explanation> {
    const paused = pauseReason(asked.core.pause, "schedules wait");
    const dueAtMs = row.nextAtMs ?? (await this.#firstDue(asked, row));
    return this.#answer(asked, [...(paused === null ? [] : [paused]), scheduleReason(row, dueAtMs, this.#parts.nowMs())]);
  }

  async #run(asked: Asked, offset: number): Promise<Explanation> {
    const subject = `run ${offset}`;
    if (Object.hasOwn(asked.core.runs.open, offset)) {
      const half = await this.#ask(asked, [], [offset]);
      return this.#answer(asked, [runReason(offset, half)], half);
    }
    const request = await this.#eventAt(asked, offset);
    if (request.type !== itx.runRequested.type)
      throw codedError("NOT_FOUND", `the event at offset ${offset} is ${request.type}; it asks for no run`, { offset });
    const end = await this.#endOf(asked, offset);
    return this.#answer(asked, [{ kind: "done", subject, sentence: end === null ? "it has ended" : `it ended at offset ${end}` }]);
  }

  /** Offset of the fact that ended a run. */
  async #endOf({ address, headOffset, signal }: Asked, requestOffset: number): Promise<number | null> {
    for (let after = requestOffset; after < headOffset;) {
      const { events, scannedThrough } = await this.#parts.reads.read(address, after, [itx.runSettled.type], page, signal);
      const end = events.find(
        ({ payload }) => (JSON.parse(payload!.toString()) as { requestOffset: number }).requestOffset === requestOffset,
      );
      if (end !== undefined) return Number(end.offset);
      after = scannedThrough;
    }
    return null;
  }

  /** When a schedule whose firings have not begun is due: counted from the time of the event that set it. */
  async #firstDue(asked: Asked, { when, since }: ScheduleRow): Promise<number | null> {
    try {
      const { createdAtUs } = await this.#eventAt(asked, since);
      return firstDue(when, Number(createdAtUs / 1_000n));
    } catch (error) {
      if (isCodedError(error) && error.code === "OFFSET_TRUNCATED") return null;
      throw error;
    }
  }

  async #hasAfter({ address, signal }: Asked, { consumes }: SubscriptionRow, cursor: number): Promise<boolean | null> {
    try {
      const types = consumes.includes("*") ? [] : consumes;
      const { events } = await this.#parts.reads.read(address, cursor, types, one, signal);
      return events.length > 0;
    } catch (error) {
      if (isCodedError(error) && error.code === "OFFSET_TRUNCATED") return null;
      throw error;
    }
  }

  async #eventAt({ address, headOffset, signal }: Asked, offset: number): Promise<Event> {
    const page = offset < 1 ? { events: [] } : await this.#parts.reads.read(address, offset - 1, [], one, signal);
    const [event] = page.events;
    if (event !== undefined && Number(event.offset) === offset) return event;
    throw codedError("NOT_FOUND", `no event is stored at offset ${offset}; the head of this context is at ${headOffset}`, {
      headOffset,
    });
  }

  #ask({ address, signal }: Asked, rows: readonly SubscriptionRow[], runs: readonly number[]): Promise<RunnerHalf | null> {
    const names = rows.map(({ name }) => name);
    return this.#parts.runner.ask(address, names, runs, signal);
  }

  /** @param half what the runner said, where it was asked. */
  #answer({ core, headOffset }: Asked, reasons: readonly Reason[], half?: RunnerHalf | null): Explanation {
    const isDone = reasons.every(({ kind }) => kind === "done" || kind === "nobody");
    const paused = isDone ? null : pauseReason(core.pause, "it takes no events, and what is emitted into it waits,");
    const isKnown = paused === null || reasons.some(({ kind }) => kind === "paused");
    return { isDone, reasons: isKnown ? reasons : [...reasons, paused], headOffset, away: half === null ? ["runner"] : [] };
  }
}

function rowIn<Row>(table: Readonly<Record<string, Row>>, what: string, name: string): Row {
  if (Object.hasOwn(table, name)) return table[name]!;
  const names = Object.keys(table)
    .slice(0, maxNamed)
    .map((each) => JSON.stringify(each));
  const there = names.length === 0 ? "none" : names.join(", ");
  throw codedError("NOT_FOUND", `this context has no ${what} ${JSON.stringify(name)}; it has ${there}`, { name });
}
