/**
 * Gives up the past of logs, one context at a time, in any pod.
 *
 * A context that has said what it keeps is looked at when that changes and every hour: what may go is decided from its confirmed state
 * and the floors of its subscriptions, and committed as `itx/log-truncated` by an ordinary append. Only then is the first offset raised,
 * for readers of every pod at once, and the rows below it are removed in small steps. A crash between any two of these leaves the rest
 * to the next look: the fact is in the core state, and the core state is compared with what was carried out. Two pods at one context
 * lose time, nothing else.
 */
import { itx } from "iterate/events";
import { isCodedError } from "iterate/lib";
import type { NewChain } from "../caller/writer.js";
import { firstOffsetOf } from "../core/retention.js";
import { readableCore } from "../log/confirm.js";
import { isClosed, type Appender, type ContextHead } from "../log/contract.js";
import type { RetentionStore } from "./contract.js";
import { decide } from "./decide.js";
import { retentionLimits } from "./limits.js";

export interface RetentionTimes {
  /** Between two rounds that found nothing more to do. */
  readonly roundMs: number;
  /** Until a context is looked at again. */
  readonly sweepMs: number;
  readonly keysKeptMs: number;
  readonly haltedHoldMs: number;
}

export const retentionTimes: RetentionTimes = {
  roundMs: 30_000,
  sweepMs: retentionLimits.sweepMs,
  keysKeptMs: retentionLimits.keysKeptMs,
  haltedHoldMs: retentionLimits.haltedHoldMs,
};

/** Contexts of one round, and how long nobody else looks at them. */
const claimed = 16;
const claimMs = 120_000;
/** New or changed settings taken note of in one round. */
const noticed = 1_000;
/** Rows of one statement, and statements for one context before the next one has its turn. */
const stepRows = 1_000;
const maxSteps = 100;
/** A decision that was overtaken, or an append that could not be made, is tried again. */
const retryMs = 10_000;

export interface SweeperParts {
  readonly store: RetentionStore;
  /** The contexts as of now; one that is gone is not answered. */
  readonly refresh: (contextIds: readonly number[]) => Promise<readonly ContextHead[]>;
  readonly appender: Appender;
  readonly newChain: NewChain;
  /** Where tests make the process fail. */
  readonly failpoint: (name: string) => void | Promise<void>;
  readonly times: RetentionTimes;
  /** Told of every context that could not be worked on; it is due again. */
  readonly onFailure: (head: ContextHead, error: unknown) => void;
}

export class RetentionSweeper {
  readonly #parts: SweeperParts;
  #truncations = 0;

  constructor(parts: SweeperParts) {
    this.#parts = parts;
  }

  /** Truncations committed by this process. */
  get truncations(): number {
    return this.#truncations;
  }

  /** One round: true when more contexts may be due. @throws CodedError UNAVAILABLE when the database is away. */
  async round(): Promise<boolean> {
    const { store, refresh, times, onFailure } = this.#parts;
    await store.noticeChanges(noticed);
    const contextIds = await store.claim(claimed, claimMs);
    if (contextIds.length === 0) return false;
    const heads = new Map((await refresh(contextIds)).map((head) => [head.contextId, head]));
    let mayBeMore = contextIds.length === claimed;
    for (const contextId of contextIds) {
      const head = heads.get(contextId);
      let dueInMs = times.sweepMs;
      // One that was replaced is removed soon, or gone.
      if (head !== undefined && !isClosed(head)) {
        try {
          if (!(await this.#sweep(head))) {
            dueInMs = 0;
            mayBeMore = true;
          }
        } catch (error) {
          dueInMs = retryMs;
          if (!(isCodedError(error) && error.kind === "conflict")) onFailure(head, error);
        }
      }
      await store.release(contextId, dueInMs);
    }
    return mayBeMore;
  }

  /** True when nothing is left to do for now. */
  async #sweep(head: ContextHead): Promise<boolean> {
    const { store, failpoint, times } = this.#parts;
    const firstOffset = await this.#truncate(head);
    await failpoint("retention.truncated");
    if (firstOffset > 1) await store.begin(head.contextId, firstOffset);
    for (let step = 0; step < maxSteps; step += 1) {
      await failpoint("retention.emptying");
      const isEmptied = !(await store.empty(head.contextId, stepRows));
      if (isEmptied && !(await store.purge(head.contextId, stepRows, times.keysKeptMs))) return true;
    }
    return false;
  }

  /** Commits what may go; answers the first offset of the context after that. */
  async #truncate(head: ContextHead): Promise<number> {
    const { store, appender, newChain } = this.#parts;
    const { address, contextId, lastOffset } = head;
    const core = readableCore(head);
    const wanted = await this.#wanted(head);
    if (wanted <= firstOffsetOf(core)) return firstOffsetOf(core);
    await store.keepFloors(contextId, Object.keys(core.subscriptions));
    const decision = decide({ core, wanted, floors: await store.floorsOf(contextId), abandoned: await this.#abandoned(head) });
    if (decision === null) return firstOffsetOf(core);
    const payload = { ...decision, decidedAtOffset: lastOffset };
    await appender.append({
      address,
      appendId: null,
      events: [
        {
          type: itx.logTruncated.type,
          payload: Buffer.from(JSON.stringify(payload)),
          metadata: null,
          idempotencyKey: null,
          expectedOffset: null,
          formatVersion: 0,
          processor: null,
          isEphemeral: false,
        },
      ],
      writer: {
        kind: "service",
        origin: null,
        cause: { chain: newChain("retention"), depth: 0 },
        principal: null,
        isPlatform: true,
        owner: null,
        lease: null,
      },
      traceparent: null,
    });
    this.#truncations += 1;
    return decision.firstOffset;
  }

  /** Offset of the first event the context wishes to keep; never beyond what it holds. */
  #wanted({ contextId, core, lastOffset }: ContextHead): number | Promise<number> {
    const keepFrom = core.retention?.keepFrom ?? null;
    if (keepFrom === null) return 1;
    if ("offset" in keepFrom) return Math.min(keepFrom.offset, lastOffset + 1);
    return this.#parts.store.firstYoungerThan(contextId, firstOffsetOf(core), lastOffset, keepFrom.maxAgeMs);
  }

  /** Subscriptions that have been halted for too long. */
  async #abandoned({ contextId, core }: ContextHead): Promise<ReadonlySet<string>> {
    const halted = Object.values(core.subscriptions).flatMap(({ name, haltedAtOffset }) =>
      haltedAtOffset === null ? [] : [{ name, haltedAtOffset }],
    );
    const ages = await this.#parts.store.agesOf(
      contextId,
      halted.map(({ haltedAtOffset }) => haltedAtOffset),
    );
    const { haltedHoldMs } = this.#parts.times;
    return new Set(halted.filter(({ haltedAtOffset }) => (ages.get(haltedAtOffset) ?? 0) >= haltedHoldMs).map(({ name }) => name));
  }
}
