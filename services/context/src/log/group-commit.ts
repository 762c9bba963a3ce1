/**
 * Carries one group of appends to its end on one connection: plan, give ids to new contexts and numbers to new types, commit by one
 * statement, and deal with what did not land.
 *
 * How an append leaves the group:
 * - decided without a write, or in a commit that landed: answered;
 * - its context lost the fence, or a key turned out to be taken, or its refusal is to be confirmed: what is true is read on this
 *   same connection, and the context goes back to the front of the queue;
 * - the statement failed: whether it was applied is found by append id, for each append by itself; those not found try again,
 *   alone after a failure that one of them may have caused.
 */
import { CodedError, codedError, isCodedError } from "iterate/lib";
import { AlreadyStored } from "./already-stored.js";
import { admitAgain, guardsOf, refreshRoots } from "./policy-guards.js";
import type { ContextBatch, PendingAppend } from "./append-queue.js";
import { answerCommitted, reloadHeads, type ShardState } from "./batch-truth.js";
import { giveIds } from "./birth.js";
import { pause, type Timers } from "../timers.js";
import { dueChanges } from "../schedules/due.js";
import { changedRows, type ConcernRow, type StoredCore } from "../core/fold.js";
import type { CommitCounters } from "./commit-counters.js";
import type { CommitObserver, ContextHead, EphemeralObserver } from "./contract.js";
import type { HeadCache } from "./head-cache.js";
import type { CommitAnswer, LastCommit, LogLane, TakenKey } from "./log-store.js";
import { keysOf, lookUpKeys } from "./look-up.js";
import { commitTraceparent, planCommit, recordTypes, type Plan, type PlannedCommit } from "./plan.js";
import type { OffsetBlocks } from "./offset-blocks.js";
import type { TypeNumbers } from "./type-numbers.js";

/** Commits an append may lose to other processes before it is given back to its client. */
const maxLosses = 8;
/** Losses after which its context is claimed, so that a rare visitor is not starved by a busy owner. */
const lossesBeforeClaim = 3;
/** Contexts claimed one after the other, while the rest of the lane waits. */
const maxClaimsInTurn = 4;
/** Tries to claim; each can only be lost to a commit that landed within the same fraction of a millisecond. */
const claimTries = 16;
/** Failed statements after which an append is given back. */
const maxFailures = 4;
/** How long an append may wait while the database is away, below every client's default deadline. */
const maxWaitMs = 8_000;
/** Pauses between looks at a database that is away; the last one repeats. */
const awayLadderMs = [50, 100, 200, 400, 800];

export interface CommitterOptions {
  readonly cache: HeadCache;
  readonly types: TypeNumbers;
  readonly shard: ShardState;
  /** This process, in commit rows. */
  readonly writer: number;
  readonly onCommit: CommitObserver;
  /** Told after a statement that changed when schedules are due. Must not throw or block. */
  readonly onDue?: (() => void) | undefined;
  readonly onEphemeral: EphemeralObserver;
  readonly blocks: OffsetBlocks;
  readonly counters: CommitCounters;
  readonly timers: Timers;
  /** Wall clock, milliseconds since 1970: the time of ephemeral events. */
  readonly clockMs: () => number;
  /** Where tests make the process fail. */
  readonly failpoint: (name: string) => void | Promise<void>;
  readonly onFault: (error: unknown) => void;
}

type Decided = Extract<Plan, { kind: "decided" }>;

/** A batch with what was decided for it. */
interface Decision {
  readonly batch: ContextBatch;
  head: ContextHead;
  readonly plan: Decided;
  readonly commit: PlannedCommit;
}

/** What a claim came to; without a decision nothing was to be written. */
interface ClaimedOutcome {
  readonly head: ContextHead;
  readonly plan: Decided;
  readonly decision: Decision | null;
  readonly atUs: number;
}

export class GroupCommitter {
  readonly #options: CommitterOptions;
  readonly #lane: LogLane;

  constructor(lane: LogLane, options: CommitterOptions) {
    this.#lane = lane;
    this.#options = options;
  }

  /** Never throws. Appends that are neither answered nor refused are back at the front of their contexts when it returns. */
  async run(batches: readonly ContextBatch[]): Promise<void> {
    this.#refuseLate(batches);
    const open = batches.filter((batch) => batch.appends.length > 0);
    try {
      await admitAgain(open, this.#options.cache, this.#lane);
      const { decisions, unconfirmed } = this.#plan(open.filter((batch) => batch.appends.length > 0));
      const lost = await this.#commit(await this.#prepare(decisions));
      if (lost.length > 0) await this.#afterLoss(lost);
      if (unconfirmed.length > 0) await this.#confirm(unconfirmed);
    } catch (error) {
      await this.#afterFailure(open, error);
    }
  }

  /** What queued behind a database that was away is given back at once, not tried one group after the other. */
  #refuseLate(batches: readonly ContextBatch[]): void {
    const late = this.#options.timers.nowMs() - maxWaitMs;
    for (const batch of batches)
      this.#giveBack(
        batch,
        ({ waitsSinceMs, failures }) => failures === 0 && waitsSinceMs < late,
        "it waited too long for its turn",
      );
  }

  #plan(batches: readonly ContextBatch[]): { decisions: Decision[]; unconfirmed: ContextBatch[] } {
    const decisions: Decision[] = [];
    const unconfirmed: ContextBatch[] = [];
    for (const batch of batches) {
      const { context, appends } = batch;
      if (context.generation !== this.#options.shard.generation) {
        unconfirmed.push(batch);
        continue;
      }
      // What was confirmed holds for the head it was read with: a newer one may hold an append that was not in the log before.
      const isConfirmed = appends.every((append) => context.isConfirmedFor(append));
      const head = isConfirmed ? context.head! : this.#headOf(batch);
      const { generation } = this.#options.shard;
      const plan = planCommit({
        head,
        appends,
        known: context.known,
        isConfirmed,
        generation,
        nextInBlock: this.#options.blocks.nextOf(head, generation),
      });
      if (plan.kind === "confirm") unconfirmed.push(batch);
      else if (plan.commit === null) this.#settleUnwritten(batch, head, plan);
      else decisions.push({ batch, head, plan, commit: plan.commit });
    }
    return { decisions, unconfirmed };
  }

  /** The newest head known. */
  #headOf({ context }: ContextBatch): ContextHead {
    const held = this.#options.cache.peekByName(context.name);
    return held !== undefined && held.commitNo >= context.head!.commitNo ? held : context.head!;
  }

  /** Gives ids to contexts about to be born and numbers to new types; answers the decisions that can be committed. */
  async #prepare(decisions: readonly Decision[]): Promise<readonly Decision[]> {
    await this.#learnTypes(decisions);
    const unnamed = decisions.filter(({ head }) => head.contextId < 0);
    if (unnamed.length === 0) return decisions;
    const born = await giveIds(
      unnamed.map(({ head }) => head),
      this.#options.cache,
      this.#lane,
    );
    return decisions.filter((decision) => {
      if (decision.head.contextId >= 0) return true;
      const head = born.get(decision.batch.context.name)!;
      if (head.contextId < 0) {
        this.#giveBack(decision.batch, () => true, "its project is being imported");
        return false;
      }
      decision.batch.context.head = head;
      decision.head = head;
      if (head.commitNo === 0) return true;
      // Another process gave birth to it meanwhile: the plan was made for a context that is gone.
      this.#putBack(decision.batch);
      return false;
    });
  }

  async #learnTypes(decisions: readonly Decision[]): Promise<void> {
    const { types } = this.#options;
    const missing = new Set<string>();
    for (const { commit } of decisions) for (const { event } of commit.rows) if (!types.has(event.type)) missing.add(event.type);
    if (missing.size > 0)
      await this.#learn(missing, () => decisions.flatMap(({ commit }) => commit.rows.map(({ event }) => event.type)));
  }

  /** Making room lets all go, those of this group among them. */
  async #learn(missing: ReadonlySet<string>, all: () => readonly string[]): Promise<void> {
    const { types } = this.#options;
    await types.learn([...(types.makeRoom(missing.size) ? new Set(all()) : missing)], this.#lane);
  }

  /** Commits the group; answers the decisions whose context lost the fence. */
  async #commit(decisions: readonly Decision[]): Promise<Decision[]> {
    if (decisions.length === 0) return [];
    const { atUs, landed, taken } = await this.#send(decisions, false);
    this.#land(
      decisions.filter(({ head }) => landed.has(head.contextId)),
      atUs,
    );
    const lost: Decision[] = [];
    for (const decision of decisions) {
      const { contextId } = decision.head;
      if (landed.has(contextId)) continue;
      const keys = taken.get(contextId);
      if (keys === undefined) lost.push(decision);
      else this.#learnKeys(decision.batch, keys);
    }
    if (lost.length > 0 && landed.size === 0) await this.#checkGeneration();
    await refreshRoots(guardsOf(lost.map(({ batch }) => batch)), this.#options.cache, this.#lane);
    return lost;
  }

  async #send(decisions: readonly Decision[], isClaimed: boolean): Promise<CommitAnswer> {
    const { cache, types, shard, writer, counters, failpoint } = this.#options;
    const group = {
      generation: shard.generation,
      writer,
      reducerVersion: cache.reducerVersion,
      commits: decisions.map(({ batch, head, commit }) => ({
        contextId: head.contextId,
        commit,
        guards: guardsOf([batch]),
        core: coreRows(cache.storedCoreOf(head), commit),
        due: dueChanges(head.core, commit.core, commit.firstOffset),
      })),
      typeNumber: (name: string) => types.of(name),
    };
    for (const { head } of decisions) this.#options.blocks.lend(head.contextId);
    await failpoint("append.before-commit");
    const answer = await (isClaimed ? this.#lane.commitClaimed(group) : this.#lane.commit(group));
    await failpoint("append.after-commit");
    counters.groups += 1;
    if (group.commits.some(({ due }) => due.length > 0)) this.#options.onDue?.();
    return answer;
  }

  /** A durable commit: memory moves, observers hear, appends are answered. */
  #land(decisions: readonly Decision[], atUs: number): void {
    if (decisions.length === 0) return;
    const { cache, shard, counters, onCommit, onFault } = this.#options;
    const commits = decisions.map(({ batch, head, plan, commit }) => {
      const { commitNo, firstOffset, lastOffset, reservedThrough, lastControl, runnerEpoch, core } = commit;
      const moved: ContextHead = {
        ...head,
        commitNo,
        lastOffset,
        reservedThrough,
        lastControl,
        runnerEpoch,
        generation: shard.generation,
        core,
      };
      const storedCore = lastControl === commitNo ? core : cache.storedCoreOf(head);
      cache.committed(moved, storedCore);
      batch.context.head = moved;
      batch.context.forgetLookups();
      counters.appends += batch.appends.length;
      counters.events += commit.rows.length;
      this.#handOut(moved, plan, atUs);
      return {
        head: moved,
        commitNo,
        firstOffset,
        lastOffset,
        rows: commit.rows,
        traceparent: commitTraceparent(commit),
      };
    });
    try {
      onCommit({ atUs, commits });
    } catch (error) {
      onFault(error);
    }
    for (const { batch, plan } of decisions) this.#settle(batch, plan, atUs);
  }

  /** Ephemeral events within a block need no commit: they are handed out as of now. */
  #settleUnwritten(batch: ContextBatch, head: ContextHead, plan: Decided): void {
    const atUs = this.#options.clockMs() * 1_000;
    this.#handOut(head, plan, atUs);
    this.#settle(batch, plan, atUs);
  }

  /** `head` is a commit of this process wherever the plan used an offset. */
  #handOut(head: ContextHead, { ephemerals, nextOffset }: Decided, atUs: number): void {
    const { blocks, counters, onEphemeral, onFault } = this.#options;
    if (ephemerals.length > 0 || blocks.has(head.contextId)) blocks.keep(head, nextOffset);
    if (ephemerals.length === 0) return;
    counters.ephemerals += ephemerals.length;
    try {
      onEphemeral({ head, atUs, events: ephemerals });
    } catch (error) {
      onFault(error);
    }
  }

  #settle({ appends, context }: ContextBatch, plan: Decided, atUs: number): void {
    this.#options.counters.emitDivergences += plan.divergences;
    context.forgetLookups();
    for (const [index, outcome] of plan.outcomes.entries()) {
      const append = appends[index]!;
      if (outcome.kind === "accepted")
        append.resolve(outcome.receipts.map((receipt) => ({ ...receipt, createdAtUs: receipt.createdAtUs ?? atUs })));
      else append.reject(this.#asCoded(outcome.error));
    }
    appends.length = 0;
  }

  #learnKeys(batch: ContextBatch, keys: readonly TakenKey[]): void {
    this.#options.counters.takenKeys += keys.length;
    for (const taken of keys) batch.context.known.set(taken.key, taken);
    this.#putBack(batch);
  }

  /** Reads what beat the group, on this connection and before its next commit, and puts the appends back in front. */
  async #afterLoss(lost: readonly Decision[]): Promise<void> {
    this.#options.counters.lostFences += lost.length;
    const batches = lost.map(({ batch }) => batch);
    for (const { appends } of batches) for (const append of appends) append.losses += 1;
    await this.#reload(lost.map(({ batch, head }) => ({ batch, contextId: head.contextId })));
    this.#options.counters.foundByAppendId += await answerCommitted(batches, this.#lane);
    let claims = 0;
    for (const batch of batches) {
      this.#giveBack(batch, ({ losses }) => losses >= maxLosses, `lost ${maxLosses} commits of this context to other writers`);
      const isStarving = batch.appends.some(({ losses }) => losses >= lossesBeforeClaim);
      if (isStarving && claims < maxClaimsInTurn) {
        claims += 1;
        await this.#commitClaimed(batch);
      }
      this.#putBack(batch);
    }
  }

  /** After a restore the log is another one: what is held of it in memory is void. */
  async #checkGeneration(): Promise<void> {
    const { shard, cache } = this.#options;
    const generation = await this.#lane.generation();
    if (generation === shard.generation) return;
    shard.generation = generation;
    cache.clear();
  }

  #reload(items: readonly { readonly batch: ContextBatch; readonly contextId: number }[]): Promise<void> {
    return reloadHeads(items, this.#options.cache, this.#options.shard, this.#lane);
  }

  /**
   * Reads what a refusal would rest on: the head and every key, after the appends arrived. An append that landed through another
   * process is answered: it is why the offset it expects is taken.
   */
  async #confirm(batches: readonly ContextBatch[]): Promise<void> {
    await this.#reload(batches.map((batch) => ({ batch, contextId: this.#headOf(batch).contextId })));
    this.#options.counters.foundByAppendId += await answerCommitted(batches, this.#lane);
    for (const batch of batches) {
      const { context, appends } = batch;
      context.confirm(appends, await lookUpKeys(this.#lane, context.head!.contextId, keysOf(appends)));
      this.#putBack(batch);
    }
  }

  /**
   * Commits one context behind a claim: the transaction takes the next commit number first, which makes every other writer of the
   * context wait for its end, and decides then. The batch is empty afterwards unless the claim itself was lost every time.
   */
  async #commitClaimed(batch: ContextBatch): Promise<void> {
    // Before the transaction: a number that is undone with it must not be remembered.
    const wanted = [...batch.appends.flatMap(({ events }) => events.map(({ type }) => type)), ...recordTypes];
    const missing = new Set(wanted.filter((type) => !this.#options.types.has(type)));
    if (missing.size > 0) await this.#learn(missing, () => wanted);
    let isOver = false;
    for (let attempt = 1; !isOver && attempt <= claimTries; attempt += 1) {
      let outcome: ClaimedOutcome | null = null;
      // A claim that came too late takes a transaction with it: the feed goes by their ids, and this one's is older than its rival's.
      await this.#lane.transaction(async () => {
        const before = await this.#lane.claimNextCommit(batch.context.head!.contextId);
        if (before === null) return false;
        isOver = true;
        outcome = await this.#decideClaimed(batch, before);
        return outcome?.decision != null;
      });
      const settled = outcome as ClaimedOutcome | null;
      if (settled?.decision != null) this.#land([settled.decision], settled.atUs);
      else if (settled !== null) this.#settleUnwritten(batch, settled.head, settled.plan);
    }
  }

  /** Decides and writes what the transaction has claimed; `null` when nothing came of it. */
  async #decideClaimed(batch: ContextBatch, before: LastCommit): Promise<ClaimedOutcome | null> {
    const { cache, shard, counters, blocks } = this.#options;
    const { contextId } = before;
    counters.claims += 1;
    await cache.moveTo([before], this.#lane);
    const head = cache.peekById(contextId);
    if (head === undefined || head.commitNo !== before.commitNo) return null;
    counters.foundByAppendId += await answerCommitted([batch], this.#lane);
    if (batch.appends.length === 0) return null;
    const known = await lookUpKeys(this.#lane, contextId, keysOf(batch.appends));
    const plan = planCommit({
      head,
      appends: batch.appends,
      known,
      isConfirmed: true,
      generation: shard.generation,
      nextInBlock: blocks.nextOf(head, shard.generation),
    }) as Decided;
    if (plan.commit === null) return { head, plan, decision: null, atUs: 0 };
    const decision: Decision = { batch, head, plan, commit: plan.commit };
    const { atUs, landed } = await this.#send([decision], true);
    return landed.has(contextId) ? { head, plan, decision, atUs } : null;
  }

  /** The statement failed, or the connection with it: what is in the log is the only truth. */
  async #afterFailure(batches: readonly ContextBatch[], error: unknown): Promise<void> {
    const { counters, timers, onFault } = this.#options;
    const isAway = isCodedError(error) && error.retryable;
    const isRepeated = error instanceof AlreadyStored;
    const open = batches.filter(({ appends }) => appends.length > 0);
    counters.failures += 1;
    if (!isAway && !isRepeated) onFault(error);
    if (!isRepeated) this.#lane.drop();
    const until = timers.nowMs() + maxWaitMs;
    let reason = error;
    for (let attempt = 0; ; attempt += 1) {
      try {
        await this.#reload(open.map((batch) => ({ batch, contextId: this.#headOf(batch).contextId })));
        const answered = await answerCommitted(open, this.#lane);
        counters.foundByAppendId += answered;
        // The append that was sent before is known and gone: nobody else is under suspicion.
        const isCleared = isAway || (isRepeated && answered > 0);
        for (const batch of open) this.#retry(batch, error, isAway, isCleared);
        return;
      } catch (again) {
        reason = again;
        this.#lane.drop();
      }
      if (timers.nowMs() > until) break;
      await pause(timers, awayLadderMs[Math.min(attempt, awayLadderMs.length - 1)]!);
    }
    // Nobody knows: the client asks again with the same append id, and is answered what is in the log.
    for (const batch of open) this.#giveBack(batch, () => true, "the database is away", reason);
  }

  #retry(batch: ContextBatch, error: unknown, isAway: boolean, isCleared: boolean): void {
    const late = this.#options.timers.nowMs() - maxWaitMs;
    for (const append of batch.appends) append.failures += 1;
    if (isAway)
      this.#giveBack(
        batch,
        ({ failures, waitsSinceMs }) => failures >= maxFailures || waitsSinceMs < late,
        "the database is away",
        error,
      );
    else if (!isCleared) {
      for (const append of batch.appends.filter(({ isAlone }) => isAlone)) {
        append.reject(new CodedError("INTERNAL", "the append could not be stored", { cause: error }));
        batch.appends.splice(batch.appends.indexOf(append), 1);
      }
    }
    for (const append of batch.appends) append.isAlone = !isCleared || (isAway && append.failures > 1);
    this.#putBack(batch);
  }

  #giveBack(batch: ContextBatch, isOver: (append: PendingAppend) => boolean, reason: string, cause?: unknown): void {
    for (const append of batch.appends.filter(isOver)) {
      append.reject(
        new CodedError("UNAVAILABLE", `the append is not known to be committed: ${reason}; repeat it with the same append_id`, {
          retryAfterMs: 250,
          cause,
        }),
      );
      batch.appends.splice(batch.appends.indexOf(append), 1);
    }
  }

  #putBack({ context, appends }: ContextBatch): void {
    context.putBack(appends.splice(0));
  }

  #asCoded(error: unknown): CodedError {
    if (isCodedError(error)) return error;
    this.#options.onFault(error);
    return codedError("INTERNAL", "the append could not be decided");
  }
}

/** Core rows that differ from what is stored; none for a commit without a control event. */
function coreRows(storedCore: StoredCore, { commitNo, lastControl, lastOffset, core }: PlannedCommit): ConcernRow[] {
  return lastControl === commitNo ? changedRows(storedCore, core, lastOffset) : [];
}
