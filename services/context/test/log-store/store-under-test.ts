/** What the conformance suite needs of an implementation, and the commits it writes. */
import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { partitionOf } from "@iterate-platform/service/ids";
import { initialCore, type ConcernRow } from "../../src/core/fold.js";
import type { ContextAddress } from "../../src/log/contract.js";
import type { CommitGroup, CommitToWrite, LogLane, LogStore } from "../../src/log/log-store.js";
import { plainSource } from "../../src/log/sql-log.fixture.js";

export interface StoreUnderTest {
  readonly store: LogStore;
  /** Resolves once `count` calls wait for others; rejects when that does not come to be. */
  untilBlocked(count: number): Promise<void>;
  /** A lane whose next commit is applied and answered by UNAVAILABLE. */
  openLaneThatLosesAnAnswer(): Promise<LogLane>;
  /** What the operator does after a restore from a backup. */
  raiseGeneration(): Promise<void>;
}

export interface EventToWrite {
  readonly type?: string;
  readonly payload?: string | null;
  readonly metadata?: string | null;
  readonly key?: string;
  /** Starts an append. */
  readonly appendId?: string;
  readonly isControl?: boolean;
}

export interface CommitFields {
  readonly commitNo: number;
  readonly firstOffset?: number;
  readonly events?: readonly EventToWrite[];
  readonly reservedThrough?: number;
  readonly lastControl?: number;
  readonly runnerEpoch?: number;
  /** Every key of the events unless told. */
  readonly keysToCheck?: readonly string[];
  readonly core?: readonly ConcernRow[];
  readonly guards?: CommitToWrite["guards"];
  readonly due?: CommitToWrite["due"];
  readonly traceparent?: string;
}

/** Two runs on one database do not meet. */
const run = randomUUID().slice(0, 8);
/** Of this run: partitions that hold contexts. */
const partitionsInUse = new Set<number>();

/** Contexts, types and commits of one test, none shared with another. */
export class Scene {
  readonly store: LogStore;
  readonly #name: string;
  readonly #types = new Map<string, number>();
  #contexts = 0;
  #generation = 1;

  private constructor(store: LogStore, name: string) {
    this.store = store;
    this.#name = name;
  }

  static async make(store: LogStore, name: string): Promise<Scene> {
    const scene = new Scene(store, name);
    await scene.know("test/a", "test/b", "test/control");
    scene.#generation = await store.generation();
    return scene;
  }

  get generation(): number {
    return this.#generation;
  }

  async know(...types: readonly string[]): Promise<void> {
    await this.store.addTypes(types);
    for (const [name, number] of await this.store.typeNumbers(types)) this.#types.set(name, number);
  }

  typeNumber(name: string): number {
    return this.#types.get(name)!;
  }

  address(): ContextAddress {
    return { owner: "prj_00000000000000000000000000", path: `/${run}/${this.#name}/${++this.#contexts}` };
  }

  /** Contexts with a row, in the order of their ids. */
  async contexts(count: number, addresses = Array.from({ length: count }, () => this.address())): Promise<number[]> {
    const contexts = addresses.map((address) => ({ address, partition: partitionOf(address.owner, address.path) }));
    for (const { partition } of contexts) partitionsInUse.add(partition);
    const made = await this.store.makeContexts(contexts);
    assert.equal(made.length, count);
    return made.map(({ contextId }) => contextId).sort((one, other) => one - other);
  }

  /** All contexts of one partition, in the order of their ids. */
  async neighbours(count: number): Promise<{ contextIds: number[]; partition: number }> {
    let first = this.address();
    while (partitionsInUse.has(partitionOf(first.owner, first.path))) first = this.address();
    const addresses = [first];
    const partition = partitionOf(first.owner, first.path);
    while (addresses.length < count) {
      const address = this.address();
      if (partitionOf(address.owner, address.path) === partition) addresses.push(address);
    }
    return { contextIds: await this.contexts(count, addresses), partition };
  }

  /** One event at the next offset unless told; offsets follow commit numbers. */
  commit(contextId: number, fields: CommitFields): CommitToWrite {
    const { commitNo, firstOffset = commitNo, events = [{}], traceparent = null } = fields;
    const lastOffset = firstOffset + events.length - 1;
    const rows = events.map(
      ({ type = "test/a", payload = "{}", metadata = null, key = null, appendId = null, isControl = false }, at) => ({
        event: {
          type,
          payload: payload === null ? null : Buffer.from(payload),
          metadata: metadata === null ? null : Buffer.from(metadata),
          idempotencyKey: key,
          bodyDigest: key === null ? null : digestOf(payload ?? ""),
          expectedOffset: null,
          isEphemeral: false,
          source: plainSource,
          traceparent,
          formatVersion: 1,
          control: isControl ? { payload: JSON.parse(payload ?? "null") as unknown } : undefined,
          bytes: payload?.length ?? 0,
        },
        appendId,
        offset: firstOffset + at,
      }),
    );
    return {
      contextId,
      commit: {
        commitNo,
        firstOffset,
        lastOffset,
        reservedThrough: fields.reservedThrough ?? lastOffset,
        lastControl: fields.lastControl ?? (events.some(({ isControl }) => isControl === true) ? commitNo : 0),
        runnerEpoch: fields.runnerEpoch ?? 0,
        rows,
        keysToCheck: fields.keysToCheck ?? events.flatMap(({ key }) => key ?? []),
        core: initialCore,
      },
      core: fields.core ?? [],
      guards: fields.guards ?? [],
      due: fields.due ?? [],
    };
  }

  group(...commits: readonly CommitToWrite[]): CommitGroup {
    return {
      generation: this.#generation,
      writer: 7,
      reducerVersion: 1,
      commits,
      typeNumber: (name) => this.typeNumber(name),
    };
  }

  /** Commits one event to each of the contexts, as their commit `commitNo`; answers those that landed, in order. */
  async land(lane: LogLane, contextIds: readonly number[], commitNo: number): Promise<number[]> {
    const { landed } = await lane.commit(this.group(...contextIds.map((contextId) => this.commit(contextId, { commitNo }))));
    return [...landed].sort((one, other) => one - other);
  }

  /** Runs `work` with so many lanes, and closes them. */
  async withLanes(count: number, work: (...lanes: LogLane[]) => Promise<void>): Promise<void> {
    const lanes = Array.from({ length: count }, () => this.store.openLane());
    try {
      await work(...lanes);
    } finally {
      for (const lane of lanes) lane.close();
    }
  }
}

/** A transaction of a lane that stays open until it is told how to end. */
export function openTransaction(
  lane: LogLane,
  work: () => Promise<unknown>,
): {
  /** Resolves once `work` is done. */
  readonly begun: Promise<void>;
  end(isCommitted: boolean): Promise<void>;
} {
  let end!: (isCommitted: boolean) => void;
  let begin!: () => void;
  let fail!: (error: unknown) => void;
  const begun = new Promise<void>((resolve, reject) => ((begin = resolve), (fail = reject)));
  const ending = new Promise<boolean>((resolve) => (end = resolve));
  const ended = lane.transaction(async () => {
    await work();
    begin();
    return ending;
  });
  ended.catch(fail);
  return {
    begun,
    end: (isCommitted) => {
      end(isCommitted);
      return ended;
    },
  };
}

export function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

let lastAppend = 0;

/** An append id that no other test has. */
export function newAppendId(): string {
  const serial = (++lastAppend).toString(16).padStart(12, "0");
  return `0190a000-${process.pid.toString(16).padStart(8, "0").slice(0, 4)}-7000-8000-${serial}`;
}

/** Asserts that `promise` rejects with a CodedError of the code. */
export async function rejectsWith(promise: Promise<unknown>, code: string): Promise<void> {
  await assert.rejects(promise, (error: { code?: unknown }) => error.code === code);
}
