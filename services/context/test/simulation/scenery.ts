/** What the clients of a run work on: a few contexts, some of one partition, and types, keys and writers that meet often. */
import { partitionOf } from "@iterate-platform/service/ids";
import { itx } from "iterate/events";
import type { Writer } from "../../src/caller/contract.js";
import type { AppendEvent, ContextAddress } from "../../src/log/contract.js";
import type { Random } from "./random.js";
import type { Truth } from "./truth.js";

/** What the making of appends goes by. */
interface Setting {
  readonly truth: Truth;
  /** Epochs of partition owners. */
  readonly epochs: Map<number, number>;
  nextSerial(): number;
}

export const owner = "prj_00000000000000000000000000";
export const ordinaryTypes = ["example.com/a", "example.com/b", "example.com/c"];
const keys = ["k1", "k2", "k3", "k4"];
/** Several of them in one append are more than a shared statement takes. */
const largeBytes = 220_000;

/** The one that most clients of a run work on. */
export const hot: ContextAddress = { owner, path: "/hot" };

export const addresses: readonly ContextAddress[] = neighbours(3).concat(
  hot,
  ["/warm", "/far"].map((path) => ({ owner, path })),
);

export const partitions: readonly number[] = [...new Set(addresses.map(partitionIn))];

export function partitionIn({ owner, path }: ContextAddress): number {
  return partitionOf(owner, path);
}

export function pickWriter(world: Setting, random: Random, address: ContextAddress): Writer {
  const person: Writer = {
    kind: "person",
    origin: "/",
    cause: { chain: "2030-01-01T00:00:00.000Z with person ~simulated", depth: 0 },
    principal: "usr_simulated",
    isPlatform: false,
    owner: null,
    lease: null,
  };
  if (random.chance(0.6)) return person;
  const service: Writer = { ...person, kind: "service", origin: null, principal: null, isPlatform: true };
  if (random.chance(0.5)) return service;
  const partition = partitionIn(address);
  const newest = world.epochs.get(partition) ?? 1;
  const isNew = random.chance(0.1);
  if (isNew) world.epochs.set(partition, newest + 1);
  const epoch = isNew ? newest + 1 : Math.max(1, newest - (random.chance(0.3) ? 1 : 0));
  return { ...person, kind: "code", origin: address.path, owner, lease: { partition, epoch } };
}

/** Events of one append; their bodies are unlike all others, unless they share a key. */
export function pickEvents(world: Setting, random: Random, address: ContextAddress): AppendEvent[] {
  const serial = world.nextSerial();
  const count = random.pick([1, 1, 1, 2, 3]);
  if (random.chance(0.004))
    return Array.from({ length: 5 }, (_, at) => event({ payload: { serial, at, text: "x".repeat(largeBytes) } }));
  const events = Array.from({ length: count }, (_, at): AppendEvent => {
    if (random.chance(0.12)) return pickControl(random, serial);
    if (random.chance(0.1)) return event({ payload: { serial, at }, isEphemeral: true });
    if (random.chance(0.25)) {
      const key = random.pick(keys);
      // The same key comes with one of two bodies.
      return event({ payload: { key, variant: random.chance(0.1) ? 1 : 0 }, idempotencyKey: key });
    }
    const isNew = random.chance(0.03);
    return event({ type: isNew ? `example.com/new-${serial}` : random.pick(ordinaryTypes), payload: { serial, at } });
  });
  const isExpecting = random.chance(0.2) && events.every(({ idempotencyKey }) => idempotencyKey === null);
  if (!isExpecting) return events;
  const head = world.truth.headOf(address);
  return events.map((event, at) => ({ ...event, expectedOffset: head + 1 + at }));
}

/** A few schedules that meet often: set, replaced, set again as they are, cancelled by whatever receipt. */
function pickSchedule(random: Random, serial: number): AppendEvent {
  const key = random.pick(["one", "two", "three"]);
  if (random.chance(0.25)) {
    const receipt = random.chance(0.5) ? {} : { ifScheduledAtOffset: random.between(1, 40) };
    return event({ type: itx.scheduleCancelled.type, payload: { key, ...receipt } });
  }
  const when = random.pick([
    { afterMs: random.pick([0, 50, 900, 4_000]) },
    { everyMs: random.pick([1_000, 1_000, 3_000]) },
    { at: new Date(Date.UTC(2030, 0, 1) + random.between(0, 15_000)).toISOString() },
    { cron: "* * * * *", timeZone: "Europe/London", ...random.pick([{}, { catchUp: "skip" }, { catchUp: "all", max: 2 }]) },
  ]);
  const events = Array.from({ length: random.pick([1, 1, 2]) }, (_, at) => ({
    type: random.pick(ordinaryTypes),
    payload: { serial, at },
  }));
  return event({ type: itx.scheduleSet.type, payload: { key, when, events } });
}

/** The one rule that is set, anew, and taken away. */
export const ruleMatch = "itx.db";

function pickRule(random: Random, serial: number): AppendEvent {
  const target = random.chance(0.4) ? null : ["itx", "append", `v${serial}`];
  return event({ type: itx.rewriteRuleConfigured.type, payload: { match: ruleMatch, target } });
}

function pickControl(random: Random, serial: number): AppendEvent {
  if (random.chance(0.4)) return pickSchedule(random, serial);
  if (random.chance(0.5)) return pickRule(random, serial);
  const name = random.pick(["one", "two"]);
  switch (random.between(0, 4)) {
    case 0:
      return event({ type: itx.paused.type, payload: { reason: `of ${serial}` } });
    case 1:
    case 2:
      return event({ type: itx.resumed.type, payload: {} });
    case 3:
      return event({ type: itx.subscriptionConfigured.type, payload: { name, target: null } });
    default:
      return event({ type: itx.subscriptionConfigured.type, payload: { name, target: ["itx", `a${serial}`] } });
  }
}

export function event(fields: {
  readonly type?: string;
  readonly payload?: unknown;
  readonly idempotencyKey?: string;
  readonly isEphemeral?: boolean;
}): AppendEvent {
  const { type = "example.com/a", payload = null, idempotencyKey = null, isEphemeral = false } = fields;
  return {
    type,
    payload: Buffer.from(JSON.stringify(payload)),
    metadata: null,
    idempotencyKey,
    expectedOffset: null,
    formatVersion: 0,
    processor: null,
    isEphemeral,
  };
}

/** Contexts of one owner that lie in one partition. */
function neighbours(count: number): ContextAddress[] {
  const partition = partitionOf(owner, "/n0");
  const found: ContextAddress[] = [];
  for (let n = 0; found.length < count; n += 1) {
    const path = `/n${n}`;
    if (partitionOf(owner, path) === partition) found.push({ owner, path });
  }
  return found;
}
