/**
 * What must hold of schedules, looked at where a firing is committed: it is of the definition and the occurrence that are next, not early,
 * not while the context is paused, whole, and once. And at rest: nothing that is due stays unfired.
 */
import { isDeepStrictEqual } from "node:util";
import { itx } from "iterate/events";
import type { z } from "zod";
import { storedControlEvent } from "../../src/core/control-event.js";
import type { CoreState, ScheduleRow } from "../../src/core/contract.js";
import { foldCore, initialCore } from "../../src/core/fold.js";
import { Vocabulary } from "../../src/core/vocabulary.js";
import type { StoredSource } from "../../src/log/stored-event.js";
import type { ScheduleDefinition } from "../../src/schedules/contract.js";
import { inForce } from "../../src/schedules/due.js";
import { firstDue } from "../../src/schedules/when.js";
import type { CommitRecord, ContextRecord, EventRecord, SimulatedLog } from "./simulated-log.js";

type Fired = z.infer<typeof itx.scheduleFired.payload>;

interface Court {
  readonly log: SimulatedLog;
  require(isTrue: boolean, problem: () => string): void;
}

/** How late a firing may be found when nothing is disturbed: a claim of a process that is gone, and a page of the sweep. */
const patienceMs = 25_000;

const vocabulary = new Vocabulary();

export class ScheduleTruth {
  readonly #world: Court;
  /** The fold of each context's commits so far. */
  #cores = new Map<number, { core: CoreState; commitNo: number }>();
  /** Firings seen. */
  fired = 0;

  constructor(world: Court) {
    this.#world = world;
  }

  /** Hears of each commit at the moment it is there for everyone. */
  committed(context: ContextRecord, commit: CommitRecord): void {
    let { core } = this.#before(context, commit.commitNo);
    for (const [at, event] of commit.events.entries()) {
      if (!event.isControl) continue;
      const control = this.#controlOf(event);
      if (control === undefined) continue;
      if (control.type === itx.scheduleFired.type) this.#checkFiring(context, commit, at, core, control.payload as Fired);
      core = foldCore(core, control);
    }
    this.#cores.set(context.contextId, { core, commitNo: commit.commitNo });
  }

  /** Another log is in force. */
  restored(): void {
    this.#cores = new Map();
  }

  /** What should have been fired by now and was not, in words. */
  overdue(): string[] {
    const nowMs = this.#world.log.nowUs / 1_000;
    return [...this.#world.log.contexts].flatMap((context) => {
      const { core } = this.#before(context, (context.last?.commitNo ?? 0) + 1);
      if (core.pause !== null) return [];
      return Object.keys(core.schedules).flatMap((key) => {
        const row = inForce(core, key);
        const due = row === undefined ? null : dueOf(context, row);
        return due === null || due > nowMs - patienceMs ? [] : [`${context.address.path} ${key} of ${row!.scheduledAtOffset}`];
      });
    });
  }

  #checkFiring(context: ContextRecord, commit: CommitRecord, at: number, core: CoreState, fired: Fired): void {
    this.fired += 1;
    const { events } = commit;
    const { require } = { require: this.#world.require.bind(this.#world) };
    const place = `${context.address.path} ${events[at]!.offset}: the firing of ${fired.key} of ${fired.scheduledAtOffset}`;
    const row = inForce(core, fired.key);
    require(row?.scheduledAtOffset === fired.scheduledAtOffset, () => `${place} is of a schedule that is not in force`);
    if (row === undefined) return;
    require(core.pause === null, () => `${place} is in a paused context`);
    require(commit.atUs >= Date.parse(fired.at) * 1_000, () => `${place} is early`);
    require(dueOf(context, row) === Date.parse(fired.since ?? fired.at), () => `${place} is of ${fired.at}, which is not next`);
    const definition = JSON.parse(eventAt(context, row.scheduledAtOffset)!.payload!) as ScheduleDefinition;
    const batch = events.slice(Math.max(0, at - definition.events.length), at);
    const isWhole =
      batch.length === definition.events.length &&
      batch.every(({ source, payload, offset }, n) => {
        const { schedule } = JSON.parse(source) as StoredSource;
        return (
          offset === events[at]!.offset - batch.length + n &&
          schedule?.scheduledAtOffset === fired.scheduledAtOffset &&
          schedule.at === fired.at &&
          isDeepStrictEqual(JSON.parse(payload!), definition.events[n]!.payload)
        );
      });
    require(isWhole, () => `${place} is not just behind its events`);
  }

  #before(context: ContextRecord, commitNo: number): { core: CoreState } {
    const held = this.#cores.get(context.contextId);
    if (held?.commitNo === commitNo - 1) return held;
    let core = initialCore;
    for (let no = 1; no < commitNo; no += 1)
      for (const event of context.commits.get(no)?.events ?? []) {
        const control = event.isControl ? this.#controlOf(event) : undefined;
        if (control !== undefined) core = foldCore(core, control);
      }
    return { core };
  }

  #controlOf({ offset, type, formatVersion, payload }: EventRecord) {
    for (const [name, number] of this.#world.log.types)
      if (number === type) return storedControlEvent(vocabulary, { offset, type: name, formatVersion, payload });
    return undefined;
  }
}

function dueOf(context: ContextRecord, { when, since, nextAtMs }: ScheduleRow): number | null {
  const set = eventAt(context, since);
  return nextAtMs ?? (set === undefined ? null : firstDue(when, Math.ceil(set.createdAtUs / 1_000)));
}

function eventAt(context: ContextRecord, offset: number): EventRecord | undefined {
  const event = context.events[context.indexAfter(offset - 1)];
  return event?.offset === offset ? event : undefined;
}
