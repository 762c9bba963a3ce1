/**
 * Tells the log of every ref update: `repo/commit-completed`, once per update and in order per repository, however often a sender
 * dies. The row is the owner and its due time the only reason to act; waking only makes it sooner.
 */
import type { Queryable } from "@iterate-platform/service/postgres";
import type { Log } from "@iterate-platform/service/log";
import { errorCode, type ErrorCode } from "iterate/lib";
import * as sql from "./ref-update.sql.js";

export interface RepoFact {
  readonly owner: string;
  /** Context the fact goes to: the repository's own path. */
  readonly path: string;
  /** JSON text. */
  readonly payload: string;
  readonly idempotencyKey: string;
  /** Of the push; linked, never a parent. */
  readonly traceparent: string | null;
}

export interface OutboxParts {
  readonly db: Queryable;
  /** Commits a fact to the log; repeating it is safe by its key. Rejects with the log's CodedError. */
  readonly append: (fact: RepoFact, signal: AbortSignal) => Promise<void>;
  readonly log: Log;
  readonly random: () => number;
  /** Called once per round, also when nothing was due. */
  readonly onRound?: () => void;
}

/** Also what a round costs when nothing is due: one indexed query. */
const sweepMs = 1000;
const claimS = 30;
const maxConcurrent = 8;
const ladderBaseS = 0.25;
const ladderCapS = 60;

/** Seconds until attempt `attempt + 1`: doubling from a quarter second to a minute, the upper half of each step at random. */
export function retryDelayS(attempt: number, random: () => number): number {
  const step = Math.min(ladderCapS, ladderBaseS * 2 ** Math.min(attempt - 1, 20));
  return step / 2 + (step / 2) * random();
}

export class Outbox {
  readonly #parts: OutboxParts;
  readonly #stop = new AbortController();
  #wake: (() => void) | undefined;
  #isWoken = false;
  #running: Promise<void> | undefined;

  constructor(parts: OutboxParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#running ??= this.#loop();
  }

  /** Something was journalled: look now. */
  readonly wake = (): void => {
    this.#isWoken = true;
    this.#wake?.();
  };

  /** Lets the facts in flight be told, then ends; what is left is another's, or the next start's. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.wake();
    await this.#running;
  }

  async #loop(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      this.#isWoken = false;
      let sent = 0;
      try {
        sent = await this.round();
      } catch (error) {
        this.#parts.log.warn("ref updates cannot be read; trying again", { error });
      }
      this.#parts.onRound?.();
      if (sent === 0 && !this.#isWoken) await this.#idle();
    }
  }

  /** Tells the next due fact of up to eight repositories; answers how many were settled. Throws when Postgres is away. */
  async round(): Promise<number> {
    const claimed = await sql.claimFacts(this.#parts.db, maxConcurrent, claimS);
    const settled = await Promise.all(claimed.map((fact) => this.#tell(fact)));
    return settled.filter(Boolean).length;
  }

  /** Answers whether the fact is settled. */
  async #tell(fact: sql.ClaimedFact): Promise<boolean> {
    const { db, append, log, random } = this.#parts;
    const where = { owner: fact.owner, path: fact.path, seq: fact.seq };
    try {
      const idempotencyKey = `repo/ref:${fact.path}:${fact.seq}`;
      await append(
        { owner: fact.owner, path: fact.path, payload: fact.fact, idempotencyKey, traceparent: fact.traceparent },
        AbortSignal.timeout((claimS - 5) * 1000),
      );
      await sql.settleFact(db, fact.repoId, fact.seq, null);
      return true;
    } catch (error) {
      if (isFinal(error)) {
        // The log will never take it: kept as a dead letter, so that the repository's later facts are told.
        log.error("a ref update was refused by the log for good", { ...where, error });
        await sql.settleFact(
          db,
          fact.repoId,
          fact.seq,
          `${errorCode(error)}: ${error instanceof Error ? error.message.slice(0, 1000) : ""}`,
        );
        return true;
      }
      const delayS = retryDelayS(fact.attempt, random);
      log.warn("a ref update could not be told; trying again", { ...where, attempt: fact.attempt, delayS, error });
      await sql.deferFact(db, fact.repoId, fact.seq, delayS);
      return false;
    }
  }

  async #idle(): Promise<void> {
    const { nextDueS } = await sql.outboxState(this.#parts.db).catch(() => ({ nextDueS: undefined }));
    const delayMs = nextDueS === undefined ? sweepMs : Math.min(sweepMs, Math.max(10, nextDueS * 1000));
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, delayMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.#isWoken) this.#wake();
    });
    this.#wake = undefined;
  }
}

/** What the log says of the event itself. Any other refusal is about rights, keys or the log's state, which somebody can mend. */
const finalCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "IDEMPOTENCY_CONFLICT",
  "INVALID_INPUT",
  "INVALID_JSON",
  "INVALID_CONTEXT",
  "EVENT_TOO_LARGE",
  "BATCH_TOO_LARGE",
]);

const isFinal = (error: unknown): boolean => finalCodes.has(errorCode(error));
