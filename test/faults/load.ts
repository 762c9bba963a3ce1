/**
 * Clients that never stop asking: writers with ids, keys and expected offsets of their own, readers, subscribers, waiters and followers
 * of the feed, each through whichever pod answers. What they see goes to a history; the fault is somebody else's business.
 */
import { setTimeout as pause } from "node:timers/promises";
import { ListCommitsRequest } from "@iterate-platform/proto/iterate/context/v1/feed";
import {
  AppendRequest,
  ReadEventsRequest,
  StreamEventsRequest,
  WaitForEventRequest,
} from "@iterate-platform/proto/iterate/context/v1/context";
import { EventInput, type Event } from "@iterate-platform/proto/iterate/type/v1/event";
import { newId, partitionOf, uuidv7 } from "@iterate-platform/service/ids";
import { eventually } from "@iterate-platform/testing";
import { isCodedError } from "iterate/lib";
import type { Clients } from "../../services/context/test/context-process.js";
import { controlEvent, freshEvent, keyedEvent, loadTypes } from "./bodies.js";
import { callDeadlineMs, Doors } from "./doors.js";
import { History, type AppendRecord, type Receipt, type SeenEvent, type SentEvent, type StreamRecord } from "./history.js";
import { pick, randomOf, type Random } from "./random.js";

export interface Place {
  readonly owner: string;
  readonly path: string;
}

export interface LoadOptions {
  /** A client of each pod, and one of each pod's feed. */
  readonly doors: readonly Clients[];
  readonly feedDoors: readonly Clients[];
  readonly seed: number;
  /** Contexts of each of the two projects. 4 unless told. */
  readonly contexts?: number;
  /** Writers at once. 6 unless told. */
  readonly writers?: number;
  /** Contexts of the load's own choosing, in place of random ones. */
  readonly places?: readonly Place[];
  /** What writers write, in place of odd bodies. */
  readonly fresh?: typeof freshEvent;
}

/** A client's own pace, milliseconds: so that readers do not take the machine from the writers. */
const readPaceMs = 20;
const feedPaceMs = 50;
const waitMs = 400;
const keysPerContext = 12;
const catchUpMs = 45_000;

export class Load {
  readonly history = new History();
  readonly places: readonly Place[];
  readonly #doors: Doors;
  readonly #feedDoors: Doors;
  readonly #options: LoadOptions;
  readonly #random: Random;
  readonly #running: Promise<void>[] = [];
  readonly #followers: Promise<void>[] = [];
  readonly #following = new AbortController();
  readonly #acknowledged = new Map<string, number>();
  /** The newest acknowledged event of each context. */
  readonly #latest = new Map<string, { readonly offset: number; readonly type: string }>();
  readonly #watchers = new Set<() => void>();
  #isWriting = true;
  #isReading = true;
  #appends = 0;
  #ackedAppends = 0;

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#random = randomOf(options.seed);
    const owners = [newId("prj"), newId("prj")];
    this.places =
      options.places ??
      owners.flatMap((owner) => Array.from({ length: options.contexts ?? 4 }, (_, n) => ({ owner, path: `/load/${n}` })));
    this.#doors = new Doors(options.doors, this.history);
    this.#feedDoors = new Doors(options.feedDoors, this.history);
    this.#begin();
  }

  /** Appends acknowledged so far. */
  get acked(): number {
    return this.#ackedAppends;
  }

  get partitions(): readonly number[] {
    return [...new Set(this.places.map(({ owner, path }) => partitionOf(owner, path)))];
  }

  /** Resolves once `more` further appends were acknowledged. @throws Error when that takes longer than `withinMs`. */
  async acknowledged(more: number, withinMs = 60_000): Promise<void> {
    const wanted = this.#ackedAppends + more;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () =>
          reject(new Error(`${this.#ackedAppends} of ${wanted} appends were acknowledged within ${withinMs} ms; ${this.felt()}`)),
        withinMs,
      );
    });
    let watcher: () => void = () => undefined;
    const reached = new Promise<void>((resolve) => {
      watcher = () => {
        if (this.#ackedAppends >= wanted) resolve();
      };
      this.#watchers.add(watcher);
    });
    try {
      await Promise.race([reached, late]);
    } finally {
      clearTimeout(timer);
      this.#watchers.delete(watcher);
    }
  }

  /** Resolves once every subscriber has what is acknowledged now. @throws Error naming who has not. */
  async subscribersKeepUp(withinMs = 10_000): Promise<void> {
    const due = new Map(this.#acknowledged);
    await eventually(
      () => {
        const late = this.history.streams.find(({ context, through }) => through < (due.get(context) ?? 0));
        if (late !== undefined)
          throw new Error(`a subscriber of ${late.context} is at ${late.through} of ${due.get(late.context)}`);
        return true;
      },
      { timeoutMs: withinMs },
    );
  }

  /** What the clients felt of the fault, for messages. */
  felt(): string {
    const { retried, unexpected } = this.history;
    return `seed ${this.#options.seed}, retried ${JSON.stringify(Object.fromEntries(retried))}, unexpected ${JSON.stringify(unexpected.slice(0, 3))}`;
  }

  /** Lets what is under way be answered, and sends nothing more. */
  async stopWriting(): Promise<void> {
    this.#isWriting = false;
    this.#isReading = false;
    await Promise.all(this.#running);
  }

  /** Ends the writers, lets every subscriber and follower come to the head, then ends them too. */
  async stop(): Promise<void> {
    await this.stopWriting();
    const heads = new Map<string, number>();
    for (const { owner, path } of this.places) {
      const { headOffset } = await this.#doors.call("describeContext", 0, never, ({ context }) =>
        context.describeContext({ context: { owner, path } }, { deadlineMs: callDeadlineMs }),
      );
      heads.set(nameOf({ owner, path }), Number(headOffset));
    }
    try {
      await eventually(
        () => {
          const late = this.history.streams.find(({ context, through }) => through < heads.get(context)!);
          if (late !== undefined)
            throw new Error(`a subscriber of ${late.context} is at ${late.through} of ${heads.get(late.context)}`);
          const told = new Set(
            this.history.feeds.flatMap(({ commits }) => commits.map(({ context, lastOffset }) => `${context} ${lastOffset}`)),
          );
          const untold = [...heads].find(
            ([context, head]) => head > 0 && this.history.feeds.length > 0 && !told.has(`${context} ${head}`),
          );
          if (untold !== undefined) throw new Error(`no feed tells of the head of ${untold[0]}`);
          return true;
        },
        { timeoutMs: catchUpMs, intervalMs: 50 },
      );
    } finally {
      this.#following.abort(new Error("the load is over"));
      await Promise.allSettled(this.#followers);
    }
  }

  /** Ends everything at once: a test that failed leaves no client behind. */
  async abandon(): Promise<void> {
    this.#isWriting = false;
    this.#isReading = false;
    this.#following.abort(new Error("the load was abandoned"));
    await Promise.allSettled([...this.#running, ...this.#followers]);
  }

  #begin(): void {
    const { writers = 6 } = this.#options;
    for (let index = 0; index < writers; index += 1) this.#running.push(this.#write(index));
    for (let index = 0; index < 2; index += 1) this.#running.push(this.#read(index), this.#wait(index));
    for (const [index, place] of this.places.entries())
      for (let door = 0; door < this.#doors.count; door += 1)
        if ((index + door) % 2 === 0) this.#followers.push(this.#follow(place, door));
    for (const [index, partition] of this.partitions.entries()) this.#followers.push(this.#feed(partition, index));
  }

  async #write(index: number): Promise<void> {
    const isOver = (): boolean => !this.#isWriting;
    while (this.#isWriting) {
      const record = this.#newAppend();
      this.history.appends.push(record);
      try {
        await this.#doors.call("append", index + Math.floor(this.#random() * 8), isOver, (clients) => this.#send(record, clients));
      } catch (error) {
        if (isCodedError(error) && !error.retryable) record.refusal = error.code;
        else if (!isOver()) this.#doors.note("append", error);
      }
    }
  }

  #newAppend(): AppendRecord {
    const place = pick(this.#random, this.places);
    const context = nameOf(place);
    const appendId = uuidv7();
    const chance = this.#random();
    const mark = (index: number): string => `${this.#options.seed} ${this.#appends} ${index}`;
    this.#appends += 1;
    const size = 1 + Math.floor(this.#random() * 3);
    const { fresh = freshEvent } = this.#options;
    const events: SentEvent[] = Array.from({ length: size }, (_, index) => fresh(this.#random, place.owner, mark(index)));
    if (chance < 0.2) events.push(keyedEvent(place.owner, `k${Math.floor(this.#random() * keysPerContext)}`));
    else if (chance < 0.3) events.push(controlEvent(this.#random, place.owner, mark(size)));
    const expectedOffset = chance > 0.85 ? (this.#acknowledged.get(context) ?? 1) + 1 : null;
    return { context, appendId, events, expectedOffset, answers: [], refusal: null };
  }

  /** Sends one append, sometimes twice at once: both answers must say the same. */
  async #send(record: AppendRecord, clients: Clients): Promise<void> {
    const sending = this.#random() < 0.1 ? [clients, this.#doors.at(Math.floor(this.#random() * 8))] : [clients];
    const outcomes = await Promise.allSettled(sending.map((one) => this.#append(record, one)));
    for (const outcome of outcomes) {
      if (outcome.status === "fulfilled") record.answers.push(outcome.value);
      else if (!this.#doors.isCurable(outcome.reason)) throw outcome.reason;
    }
    if (record.answers.length === 0) throw (outcomes[0] as PromiseRejectedResult).reason;
    const last = Math.max(...record.answers[0]!.map(({ offset }) => offset));
    this.#acknowledged.set(record.context, Math.max(this.#acknowledged.get(record.context) ?? 0, last));
    const [first] = record.answers[0]!;
    this.#latest.set(record.context, { offset: first!.offset, type: record.events[0]!.type });
    this.#ackedAppends += 1;
    for (const watcher of this.#watchers) watcher();
  }

  async #append({ context, appendId, events, expectedOffset }: AppendRecord, clients: Clients): Promise<Receipt[]> {
    const inputs = events.map(({ type, payload, metadata, key }, index) =>
      EventInput.fromPartial({
        type,
        payload: Buffer.from(payload),
        metadata: Buffer.from(metadata),
        idempotencyKey: key,
        ...(index === 0 && expectedOffset !== null ? { expectedOffset: BigInt(expectedOffset) } : {}),
      }),
    );
    const { receipts } = await clients.context.append(
      AppendRequest.fromPartial({ context: placeOf(context), appendId, events: inputs }),
      {
        deadlineMs: callDeadlineMs,
      },
    );
    return receipts.map(({ offset, existing }) => ({ offset: Number(offset), existing }));
  }

  async #read(index: number): Promise<void> {
    const isOver = (): boolean => !this.#isReading;
    while (this.#isReading) {
      const place = pick(this.#random, this.places);
      const context = nameOf(place);
      const mustSee = this.#acknowledged.get(context) ?? 0;
      const after = this.#random() < 0.5 ? Math.max(0, mustSee - 5) : Math.floor(this.#random() * mustSee);
      try {
        const page = await this.#doors.call("readEvents", index + Math.floor(this.#random() * 8), isOver, (clients) =>
          clients.context.readEvents(ReadEventsRequest.fromPartial({ context: place, afterOffset: BigInt(after), limit: 200 }), {
            deadlineMs: callDeadlineMs,
          }),
        );
        const through = Number(page.scannedThroughOffset);
        this.history.reads.push({ context, after, through, isAtHead: page.atHead, mustSee, events: page.events.map(seen) });
      } catch (error) {
        if (!isOver()) this.#doors.note("readEvents", error);
      }
      await pause(readPaceMs);
    }
  }

  /** In turn for an event that was acknowledged, which must be answered however often it is asked for, and for whatever comes next. */
  async #wait(index: number): Promise<void> {
    const isOver = (): boolean => !this.#isReading;
    while (this.#isReading) {
      const place = pick(this.#random, this.places);
      const context = nameOf(place);
      const known = this.#random() < 0.5 ? this.#latest.get(context) : undefined;
      const after = known === undefined ? (this.#acknowledged.get(context) ?? 0) : known.offset - 1;
      const type = known?.type ?? pick(this.#random, loadTypes);
      const request = WaitForEventRequest.fromPartial({
        context: place,
        types: [type],
        afterOffset: BigInt(after),
        timeoutMs: waitMs,
      });
      try {
        const event = await this.#doors.call("waitForEvent", index + Math.floor(this.#random() * 8), isOver, (clients) =>
          clients.context.waitForEvent(request, { deadlineMs: callDeadlineMs }).then(
            (answer) => seen(answer.event!),
            (error: unknown) => {
              if (isCodedError(error) && error.code === "WAIT_TIMEOUT" && known === undefined) return null;
              throw error;
            },
          ),
        );
        if (event !== null) this.history.waits.push({ context, type, after, event });
      } catch (error) {
        if (!isOver()) this.#doors.note("waitForEvent", error);
      }
    }
  }

  /** One subscriber from the start of the log: it goes to the next pod where it was when its own ends. */
  async #follow(place: Place, door: number): Promise<void> {
    const record: StreamRecord = { context: nameOf(place), after: 0, through: 0, events: [] };
    this.history.streams.push(record);
    const { signal } = this.#following;
    for (let attempt = door; !signal.aborted; attempt += 1) {
      const request = StreamEventsRequest.fromPartial({ context: place, afterOffset: BigInt(record.through) });
      try {
        for await (const step of this.#doors.at(attempt).context.streamEvents(request, { signal })) {
          record.events.push(...step.events.map(seen));
          record.through = Number(step.scannedThroughOffset);
        }
      } catch (error) {
        if (signal.aborted) return;
        if (!this.#doors.isCurable(error)) this.#doors.note("streamEvents", error);
        await pause(readPaceMs);
      }
    }
  }

  async #feed(partition: number, door: number): Promise<void> {
    const record = { partition, commits: [] as History["feeds"][number]["commits"] };
    this.history.feeds.push(record);
    const { signal } = this.#following;
    const isOver = (): boolean => signal.aborted;
    for (let after = ""; !signal.aborted;) {
      try {
        const page = await this.#feedDoors.call("listCommits", door, isOver, ({ feed }) =>
          feed.listCommits(ListCommitsRequest.fromPartial({ partition, after, limit: 100 }), { deadlineMs: callDeadlineMs }),
        );
        for (const { context, commitNo, firstOffset, lastOffset } of page.commits)
          record.commits.push({
            context: nameOf(context!),
            commitNo: Number(commitNo),
            firstOffset: Number(firstOffset),
            lastOffset: Number(lastOffset),
          });
        after = page.next;
        if (page.atHead) await pause(feedPaceMs);
      } catch (error) {
        if (!signal.aborted) this.#doors.note("listCommits", error);
        return;
      }
    }
  }
}

const never = (): boolean => false;

export function nameOf({ owner, path }: Place): string {
  return `${owner} ${path}`;
}

export function placeOf(context: string): Place {
  const space = context.indexOf(" ");
  return { owner: context.slice(0, space), path: context.slice(space + 1) };
}

export function seen({ offset, type, payload, metadata, idempotencyKey }: Event): SeenEvent {
  const text = (bytes: Uint8Array | undefined): string => (bytes === undefined ? "" : Buffer.from(bytes).toString());
  return { offset: Number(offset), type, payload: text(payload), metadata: text(metadata), key: idempotencyKey };
}
