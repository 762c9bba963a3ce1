/**
 * Imports: an archive is read line by line and written under a name of the import's own, context by context, in commits of bounded size.
 * Everything is checked on the way, as an append would check it: what is written is what was exported, or the import fails as a whole.
 *
 * Events that were delivered where they come from are not delivered again: behind its last event a context with subscriptions gets one
 * more commit, which tells each of them to go on from there.
 */
import { itx } from "iterate/events";
import { codedError, isCodedError } from "iterate/lib";
import { partitionOf } from "@iterate-platform/service/ids";
import type { NewChain } from "../caller/writer.js";
import type { CoreState } from "../core/contract.js";
import { storedControlEvent } from "../core/control-event.js";
import { foldCore, initialCore } from "../core/fold.js";
import { firstOffsetOf } from "../core/retention.js";
import type { Vocabulary } from "../core/vocabulary.js";
import { inForce } from "../schedules/due.js";
import type { JsonThread } from "../json/worker-thread.js";
import { AlreadyStored } from "../log/already-stored.js";
import { checkedAppendId } from "../log/append-id.js";
import { EventAdmission } from "../log/event-admission.js";
import { appendLimits } from "../log/limits.js";
import { textProblem } from "../log/storable-text.js";
import { decodeSource } from "../log/stored-event.js";
import type { ArchivedContext, ArchivedEvent, ArchiveStore, StagedCommit, StagedEvent } from "./contract.js";
import { ArchiveReader, maxLineBytes } from "./format.js";
import { linesOf } from "./lines.js";

/** Events and bytes of one commit. */
const commitEvents = 500;
const commitBytes = 4_194_304;

export interface StageParts {
  readonly stores: readonly ArchiveStore[];
  readonly storeOf: (partition: number) => ArchiveStore;
  /** Generation of the shard of a partition. */
  readonly generationOf: (partition: number) => Promise<number>;
  readonly vocabulary: Vocabulary;
  readonly json: JsonThread;
  readonly newChain: NewChain;
}

export interface StageRequest {
  /** 32 hexadecimal digits, never used before. */
  readonly id: string;
  /** The project the archive must be of. */
  readonly owner: string;
  /** The contexts of the project may exist: they are replaced when the import is opened. */
  readonly replaces: boolean;
}

export interface Staged {
  readonly contexts: number;
  readonly events: number;
}

/**
 * Writes an archive, complete or not at all: after a failure remove what is there by the import's id.
 *
 * @throws CodedError ALREADY_EXISTS when contexts of the project exist, or another import of it is under way; INVALID_INPUT naming the
 *   line; UPGRADE_REQUIRED; CANCELLED when the import was removed meanwhile; UNAVAILABLE.
 */
export async function stageImport(
  parts: StageParts,
  { id, owner, replaces }: StageRequest,
  data: AsyncIterable<Uint8Array>,
): Promise<Staged> {
  let isReplacing = false;
  for (const store of parts.stores) {
    if (!(await store.beginImport(id, owner)))
      throw codedError("ALREADY_EXISTS", `an import of ${owner} is under way already`, { owner });
    if (!(await store.hasContexts(owner))) continue;
    isReplacing = true;
    if (!replaces)
      throw codedError("ALREADY_EXISTS", `${owner} has contexts already; replace them, or remove them first`, { owner });
  }
  const reader = new ArchiveReader();
  const admission = new EventAdmission(parts.vocabulary);
  let context: StagedContext | null = null;
  let staged: Staged = { contexts: 0, events: 0 };
  for await (const line of linesOf(data, maxLineBytes)) {
    const item = reader.read(line);
    switch (item.kind) {
      case "header":
        if (item.header.owner !== owner)
          throw codedError("INVALID_INPUT", `the archive is of ${item.header.owner}, not of ${owner}`);
        if (item.header.of === "context" && isReplacing)
          throw codedError("INVALID_INPUT", `the archive holds one context of ${owner}: it does not replace the project`);
        break;
      case "context":
        context = await StagedContext.begin(parts, admission, id, owner, item.context);
        break;
      case "event":
        await context!.add(item.event);
        break;
      case "context-end":
        await context!.end();
        context = null;
        break;
      case "end":
        staged = { contexts: item.contexts, events: item.events };
    }
  }
  reader.finish();
  return staged;
}

/** One context on its way into the database. */
class StagedContext {
  readonly #parts: StageParts;
  readonly #admission: EventAdmission;
  readonly #store: ArchiveStore;
  readonly #id: string;
  readonly #context: ArchivedContext;
  readonly #contextId: number;
  readonly #partition: number;
  readonly #generation: number;
  #core: CoreState = initialCore;
  #events: StagedEvent[] = [];
  #bytes = 0;
  #commitNo = 0;
  #lastControl = 0;
  #lastOffset = 0;

  private constructor(
    parts: StageParts,
    admission: EventAdmission,
    id: string,
    context: ArchivedContext,
    place: { readonly contextId: number; readonly partition: number; readonly generation: number },
  ) {
    this.#parts = parts;
    this.#admission = admission;
    this.#store = parts.storeOf(place.partition);
    this.#id = id;
    this.#context = context;
    this.#contextId = place.contextId;
    this.#partition = place.partition;
    this.#generation = place.generation;
  }

  static async begin(
    parts: StageParts,
    admission: EventAdmission,
    id: string,
    owner: string,
    context: ArchivedContext,
  ): Promise<StagedContext> {
    const partition = partitionOf(owner, context.path);
    const contextId = await parts.storeOf(partition).stageContext(id, context.path, partition);
    return new StagedContext(parts, admission, id, context, {
      contextId,
      partition,
      generation: await parts.generationOf(partition),
    });
  }

  async add(event: ArchivedEvent): Promise<void> {
    const staged = await this.#checked(event);
    const bytes = (event.payload?.length ?? 0) + (event.metadata?.length ?? 0);
    if (this.#events.length === commitEvents || (this.#events.length > 0 && this.#bytes + bytes > commitBytes))
      await this.#commit();
    if (staged.isControl) this.#fold(event);
    else if (event.offset < this.#context.firstOffset) throw this.#wrong(event, "is below the first offset of its context");
    this.#events.push(staged);
    this.#bytes += bytes;
  }

  async end(): Promise<void> {
    const { through, reservedThrough, firstOffset } = this.#context;
    if (this.#lastEventOffset !== through)
      throw codedError(
        "INVALID_INPUT",
        `${this.#context.path} ends at offset ${through}; its last event is at ${this.#lastEventOffset}`,
      );
    // A truncation is a fact of the log: without it the core state would know nothing of what is gone.
    if (firstOffset > firstOffsetOf(this.#core))
      throw codedError(
        "INVALID_INPUT",
        `${this.#context.path} begins at offset ${firstOffset}; its events say ${firstOffsetOf(this.#core)}`,
      );
    await this.#commit(reservedThrough);
    const names = Object.keys(this.#core.subscriptions);
    if (names.length > 0) {
      const at = this.#lastOffset;
      this.#events = names.map((name, index) => this.#resumed(name, at, reservedThrough + 1 + index));
      await this.#commit();
    }
    if (this.#core.retention !== null) await this.#store.stageRetention(this.#contextId, firstOffset);
    const schedules = Object.keys(this.#core.schedules).flatMap((key) => inForce(this.#core, key) ?? []);
    if (schedules.length > 0) await this.#store.stageDue(this.#contextId, schedules);
  }

  get #lastEventOffset(): number {
    return this.#events.at(-1)?.offset ?? this.#lastOffset;
  }

  async #commit(reservedThrough = 0): Promise<void> {
    const events = this.#events;
    const lastOffset = this.#lastEventOffset;
    if (events.length === 0 && this.#commitNo > 0 && reservedThrough <= lastOffset) return;
    this.#commitNo += 1;
    if (events.some(({ isControl }) => isControl)) this.#lastControl = this.#commitNo;
    const firstOffset = events[0]?.offset ?? lastOffset + 1;
    const commit: StagedCommit = {
      contextId: this.#contextId,
      partition: this.#partition,
      commitNo: this.#commitNo,
      firstOffset,
      lastOffset,
      reservedThrough: Math.max(lastOffset, reservedThrough),
      lastControl: this.#lastControl,
      events,
    };
    try {
      await this.#store.stageCommit(this.#id, this.#generation, commit);
    } catch (error) {
      if (!(error instanceof AlreadyStored)) throw error;
      const { path } = this.#context;
      throw codedError(
        "INVALID_INPUT",
        `of the events at offsets ${firstOffset} to ${lastOffset} of ${path} one has a key or an append id that another one has`,
      );
    }
    this.#lastOffset = lastOffset;
    this.#events = [];
    this.#bytes = 0;
  }

  #fold({ offset, type, formatVersion, payload }: ArchivedEvent): void {
    const event = storedControlEvent(this.#parts.vocabulary, { offset, type, formatVersion, payload });
    if (event !== undefined) this.#core = foldCore(this.#core, event);
  }

  /** What an append would have refused, this refuses too. */
  async #checked(event: ArchivedEvent): Promise<StagedEvent> {
    const { type, formatVersion, appendId, idempotencyKey, source, traceparent } = event;
    const payload = event.payload === null ? null : Buffer.from(event.payload);
    const metadata = event.metadata === null ? null : Buffer.from(event.metadata);
    if ((payload?.length ?? 0) + (metadata?.length ?? 0) > appendLimits.eventBytes)
      throw this.#wrong(event, `has a body over the limit of ${appendLimits.eventBytes} bytes`);
    if (event.payload?.isWellFormed() === false || event.metadata?.isWellFormed() === false)
      throw this.#wrong(event, "has a body that is no UTF-8");
    const rule = this.#ruleOf(event);
    if (formatVersion > (rule.declaration?.formatVersion ?? 1))
      throw codedError(
        "UPGRADE_REQUIRED",
        `${type} at offset ${event.offset} has format ${formatVersion}, which this release does not know`,
        {
          type,
          formatVersion,
        },
      );
    const problem =
      (idempotencyKey === null ? null : textProblem(idempotencyKey, appendLimits.keyBytes)) ??
      (traceparent === null ? null : textProblem(traceparent, appendLimits.traceparentBytes)) ??
      textProblem(source, maxSourceBytes);
    if (problem !== null) throw this.#wrong(event, `has a key, a source or a trace that ${problem}`);
    try {
      decodeSource(source);
    } catch {
      throw this.#wrong(event, "has a source that cannot be read");
    }
    const verdict = await this.#parts.json.examine({ type, payload, metadata, isKeyed: idempotencyKey !== null });
    if (verdict.problem !== null) throw this.#wrong(event, verdict.problem);
    return {
      ...event,
      appendId: appendId === null ? null : checkedAppendId(appendId),
      isControl: rule.isControl,
      bodyDigest: verdict.digest === null ? null : Buffer.from(verdict.digest),
    };
  }

  #ruleOf(event: ArchivedEvent) {
    try {
      return this.#admission.ruleOf(event.type);
    } catch (error) {
      throw this.#wrong(event, isCodedError(error) ? `is refused: ${error.message}` : "has no type");
    }
  }

  /** Tells a subscription to go on behind what was imported. */
  #resumed(name: string, afterOffset: number, offset: number): StagedEvent {
    const source = { origin: this.#context.path, cause: { chain: this.#parts.newChain("import"), depth: 0 }, platform: true };
    return {
      offset,
      type: itx.subscriptionDeliveryResumed.type,
      formatVersion: 1,
      createdAtUs: null,
      appendId: null,
      idempotencyKey: null,
      bodyDigest: null,
      source: JSON.stringify(source),
      traceparent: null,
      payload: JSON.stringify({ name, afterOffset }),
      metadata: null,
      isControl: true,
    };
  }

  #wrong({ offset, type }: ArchivedEvent, problem: string) {
    return codedError("INVALID_INPUT", `the event at offset ${offset} of ${this.#context.path} ${problem}`, {
      offset,
      type: type.slice(0, 256),
    });
  }
}

/** A stamped source: chain, principal, label and names at their largest. */
const maxSourceBytes = 8_192;
