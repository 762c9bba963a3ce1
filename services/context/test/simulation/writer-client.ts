/**
 * A client that appends: it keeps the append id over its retries, gives up waiting when it likes and asks again through any process,
 * and later asks once more for what it was answered before. Every answer is held against the log.
 */
import { itx } from "iterate/events";
import { isCodedError, type CodedError } from "iterate/lib";
import type { AppendCommand, AppendReceipt } from "../../src/log/contract.js";
import { bodyDigest } from "../../src/json/body.js";
import type { Random } from "./random.js";
import { partitionIn, pickEvents, pickWriter } from "./scenery.js";
import type { World } from "./world.js";

/** Refusals an append of this workload may meet. */
const refusals = new Set(["OFFSET_CONFLICT", "IDEMPOTENCY_CONFLICT", "STREAM_PAUSED", "STALE_EPOCH"]);

interface Acked {
  readonly command: AppendCommand;
  readonly receipts: readonly AppendReceipt[];
}

export class WriterClient {
  readonly #world: World;
  readonly #random: Random;
  readonly #name: string;
  readonly #acked: Acked[] = [];

  constructor(world: World, random: Random, name: string) {
    this.#world = world;
    this.#random = random;
    this.#name = name;
  }

  async run(): Promise<void> {
    const { time } = this.#world;
    const pauseMs = this.#random.pick([15, 60, 300]);
    while (this.#world.isOpen) {
      await time.sleep(this.#random.next() * pauseMs);
      const isAgain = this.#acked.length > 0 && this.#random.chance(0.08);
      await (isAgain ? this.#again() : this.#append());
    }
  }

  /** Forgets what was answered of appends that a restore took back. */
  restored(): void {
    const kept = this.#acked.filter(({ command, receipts }) => this.#isStored(command, receipts));
    this.#acked.splice(0, this.#acked.length, ...kept);
  }

  /** Everything that was answered is where it was said to be. */
  checkAll(): void {
    for (const { command, receipts } of this.#acked) this.#check(command, receipts);
  }

  async #append(): Promise<void> {
    const address = this.#world.pickAddress(this.#random);
    const command: AppendCommand = {
      address,
      appendId: this.#world.ids.uuidv7(),
      events: pickEvents(this.#world, this.#random, address),
      writer: pickWriter(this.#world, this.#random, address),
      traceparent: null,
    };
    const restores = this.#world.restores;
    this.#world.tell(`${this.#name} appends ${describe(command)}`);
    const receipts = await this.#insist(command);
    // A restore meanwhile may have taken back what was answered just before it.
    if (receipts === undefined || restores !== this.#world.restores) return;
    this.#check(command, receipts);
    this.#acked.push({ command, receipts });
  }

  /** An append that was answered is answered the same for ever, through any process. */
  async #again(): Promise<void> {
    const { command, receipts } = this.#random.pick(this.#acked);
    if (command.events.some(({ isEphemeral }) => isEphemeral)) return;
    const restores = this.#world.restores;
    const again = await this.#insist(command);
    if (again === undefined || restores !== this.#world.restores) return;
    this.#world.require(
      again.every(({ offset, createdAtUs }, at) => offset === receipts[at]!.offset && createdAtUs === receipts[at]!.createdAtUs),
      () => `${this.#name}: append ${command.appendId} was answered ${offsets(receipts)}, and later ${offsets(again)}`,
    );
  }

  /** `undefined` when it was refused, or is not known to have landed. */
  async #insist(command: AppendCommand): Promise<readonly AppendReceipt[] | undefined> {
    const { time, truth } = this.#world;
    const start = () => ({ restores: this.#world.restores, commitNo: truth.commitNoOf(command.address) });
    let since = start();
    for (let attempt = 1; attempt <= 6; attempt += 1) {
      // A restored log counts on from an earlier commit.
      if (since.restores !== this.#world.restores) since = start();
      const pod = this.#world.pickPod(this.#random);
      if (pod !== undefined) {
        const patienceMs = this.#random.pick([200, 2_000, 12_000]);
        const outcome = await Promise.race([
          pod.call(pod.appender.append(command)).then(
            (receipts) => ({ receipts }),
            (error: unknown) => ({ error }),
          ),
          time.sleep(patienceMs).then(() => undefined),
        ]);
        this.#world.tell(`${this.#name} hears of ${command.appendId} through ${pod.name}: ${describeOutcome(outcome)}`);
        if (outcome !== undefined && "receipts" in outcome) return outcome.receipts;
        if (outcome !== undefined && !isRetryable(outcome.error)) {
          const commitNo = since.restores === this.#world.restores ? since.commitNo : 0;
          this.#checkRefusal(command, outcome.error, attempt === 1, commitNo);
          return undefined;
        }
      }
      await time.sleep(this.#random.next() * 400);
    }
    return undefined;
  }

  #check(command: AppendCommand, receipts: readonly AppendReceipt[]): void {
    const { truth } = this.#world;
    const { address, appendId, events, writer } = command;
    const context = this.#world.log.byAddress(address);
    const place = (): string => `${this.#name}: append ${appendId} to ${address.path}, answered ${offsets(receipts)},`;
    let firstNew: number | undefined;
    for (const [at, receipt] of receipts.entries()) {
      const sent = events[at]!;
      if (sent.isEphemeral) {
        // One whose commit was found by its append id was lost, and keeps its offset.
        const told = truth.ephemeralAt(address, receipt.offset);
        const [stored] = truth.eventsIn(address, receipt.offset - 1, receipt.offset);
        const isAlone = stored === undefined && (told === undefined || told.payload?.equals(sent.payload!) === true);
        this.#world.require(isAlone, () => `${place()} has an ephemeral event where another one is`);
        continue;
      }
      const [stored] = truth.eventsIn(address, receipt.offset - 1, receipt.offset);
      const isThere =
        stored !== undefined &&
        truth.typeName(stored.type) === sent.type &&
        stored.key === sent.idempotencyKey &&
        stored.createdAtUs === receipt.createdAtUs &&
        (stored.payload === (sent.payload?.toString() ?? null) || receipt.existing);
      this.#world.require(isThere, () => `${place()} has event ${at} not at ${receipt.offset}`);
      if (!receipt.existing) firstNew ??= receipt.offset;
      if (sent.expectedOffset !== null)
        this.#world.require(receipt.offset === sent.expectedOffset, () => `${place()} expected ${sent.expectedOffset}`);
    }
    if (firstNew !== undefined) {
      const found = context?.appends.get(appendId!);
      this.#world.require(found?.offset === firstNew, () => `${place()} is stored at ${found?.offset}`);
      const commit = truth.commitHolding(address, firstNew);
      const before = context?.commits.get((commit?.commitNo ?? 0) - 1);
      if (writer.lease !== null && writer.lease.partition === partitionIn(address))
        this.#world.require(
          writer.lease.epoch >= (before?.runnerEpoch ?? 0) && writer.lease.epoch <= commit!.runnerEpoch,
          () => `${place()} of epoch ${writer.lease!.epoch} landed after epoch ${before?.runnerEpoch}`,
        );
    }
  }

  #checkRefusal(command: AppendCommand, error: unknown, isFirst: boolean, commitNo: number): void {
    const { address, appendId, events, writer } = command;
    const { log, truth } = this.#world;
    const place = (): string => `${this.#name}: append ${appendId} to ${address.path} after commit ${commitNo}`;
    if (!isCodedError(error) || !refusals.has(error.code))
      return this.#world.fail(`${place()} failed: ${error instanceof Error ? error.stack : String(error)}`);
    const context = log.byAddress(address);
    if (isFirst)
      this.#world.require(
        context?.appends.get(appendId!) === undefined,
        () => `${place()} was refused and landed: ${error.message}`,
      );
    const isTrue = ((): boolean => {
      switch (error.code) {
        case "OFFSET_CONFLICT":
          return events.some(({ expectedOffset }) => expectedOffset !== null) && error.data["actual"] !== error.data["expected"];
        case "IDEMPOTENCY_CONFLICT": {
          if (isAtOddsWithItself(command)) return true;
          const stored = truth.eventsIn(address, Number(error.data["existingOffset"]) - 1, Number(error.data["existingOffset"]))[0];
          return (
            stored?.key != null && events.some((event) => event.idempotencyKey === stored.key && isOtherBody(event, stored.digest))
          );
        }
        case "STREAM_PAUSED":
          return wasPaused(command, this.#world, commitNo, error);
        default:
          return (
            Number(error.data["current"]) > writer.lease!.epoch &&
            (context?.last?.runnerEpoch ?? 0) >= Number(error.data["current"])
          );
      }
    })();
    this.#world.require(isTrue, () => `${place()} was refused for what is not so: ${error.message}`);
  }

  #isStored({ address, events }: AppendCommand, receipts: readonly AppendReceipt[]): boolean {
    return receipts.every(
      ({ offset, createdAtUs }, at) =>
        !events[at]!.isEphemeral && this.#world.truth.eventsIn(address, offset - 1, offset)[0]?.createdAtUs === createdAtUs,
    );
  }
}

function isRetryable(error: unknown): boolean {
  return isCodedError(error) && error.retryable;
}

function isOtherBody({ type, payload, metadata }: AppendCommand["events"][number], digest: Buffer | null): boolean {
  return digest === null || !digest.equals(bodyDigest(type, payload, metadata));
}

/** Whether one key names two bodies in the append. */
function isAtOddsWithItself({ events }: AppendCommand): boolean {
  return events.some(({ idempotencyKey, payload }) =>
    events.some((other) => idempotencyKey !== null && other.idempotencyKey === idempotencyKey && !other.payload!.equals(payload!)),
  );
}

/** Whether the context was paused, as the refusal says, at some moment from commit `commitNo` on. */
function wasPaused({ address, events }: AppendCommand, { truth }: World, commitNo: number, { data }: CodedError): boolean {
  // It pauses the context itself.
  if (events.some(({ type }) => type === itx.paused.type)) return true;
  const pausedAt = Number(data["pausedAtOffset"]);
  const pause = truth.eventsIn(address, pausedAt - 1, pausedAt)[0];
  if (pause === undefined || truth.typeName(pause.type) !== itx.paused.type) return false;
  const end = truth.eventsIn(address, pausedAt, Infinity, [itx.resumed.type])[0];
  return end === undefined || (truth.commitHolding(address, end.offset)?.commitNo ?? 0) > commitNo;
}

function offsets(receipts: readonly AppendReceipt[]): string {
  return `[${receipts.map(({ offset, existing }) => `${offset}${existing ? "=" : ""}`).join(" ")}]`;
}

function describe({ address, appendId, events, writer }: AppendCommand): string {
  const epoch = writer.lease === null ? "" : ` under epoch ${writer.lease.epoch}`;
  const kinds = events.map(({ type, idempotencyKey, expectedOffset, isEphemeral }) =>
    [
      isEphemeral ? "~" : "",
      type.slice(type.lastIndexOf("/") + 1),
      idempotencyKey ?? "",
      expectedOffset === null ? "" : `@${expectedOffset}`,
    ].join(""),
  );
  return `${appendId} to ${address.path}${epoch}: ${kinds.join(" ")}`;
}

function describeOutcome(
  outcome: { readonly receipts: readonly AppendReceipt[] } | { readonly error: unknown } | undefined,
): string {
  if (outcome === undefined) return "nothing, and waits no longer";
  if ("receipts" in outcome) return offsets(outcome.receipts);
  return isCodedError(outcome.error) ? outcome.error.code : String(outcome.error);
}
