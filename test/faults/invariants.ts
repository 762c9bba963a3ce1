/**
 * The ten promises that hold whatever breaks, each a pure function over what clients saw and what there is afterwards:
 * (1) an acknowledged append is readable at its offset for ever, byte for byte, whole or not at all; (2) offsets are unique, immutable
 * and ordered; (3) a key maps to one event; (4) state is the fold of the log; (5) no subscriber sees a gap or a reorder; (6) every
 * delivery is at rest or has a future due time; (7) a result is recorded once; (8) no lease is held past its life by a dead owner;
 * (9) no secret in anything written; (10) one project never reads another's rows. And clients are told only what a retry can cure.
 */
import { itx } from "iterate/events";
import type { AppendRecord, CommitSeen, History, SeenEvent, SentEvent, Truth } from "./history.js";

export interface Violation {
  /** Number of the promise; 0 for errors that clients must not see. */
  readonly promise: number;
  readonly sentence: string;
}

/** Everything that is wrong, worst first in the order of the promises; empty when all hold. */
export function violations(history: History, truth: Truth): Violation[] {
  return checks.flatMap((check, promise) => [...check(history, truth)].map((sentence) => ({ promise, sentence })));
}

const none: readonly SeenEvent[] = [];

type Check = (history: History, truth: Truth) => Iterable<string>;

const checks: readonly Check[] = [
  curable,
  readable,
  ordered,
  oneEventPerKey,
  folded,
  gapless,
  atRest,
  recordedOnce,
  leasesOfTheLiving,
  secretless,
  apart,
];

/** Refusals an append of the load may meet: it guessed the next offset and somebody was faster. */
const refusalsToExpect: ReadonlySet<string> = new Set(["OFFSET_CONFLICT"]);

function* curable({ unexpected, appends }: History): Iterable<string> {
  for (const { call, code, message } of unexpected) yield `${call} failed with ${code}: ${message}`;
  for (const { context, appendId, refusal } of appends)
    if (refusal !== null && !refusalsToExpect.has(refusal)) yield `append ${appendId} to ${context} was refused with ${refusal}`;
}

function* readable({ appends, reads }: History, { logs }: Truth): Iterable<string> {
  for (const log of logs) for (const append of appends) yield* heldTo(append, log.get(append.context) ?? none);
  for (const { context, after, through, isAtHead, mustSee } of reads)
    if (isAtHead && through < mustSee)
      yield `a read of ${context} after ${after} said the head is ${through}, though ${mustSee} was acknowledged before`;
}

function* heldTo(
  { context, appendId, events, answers, refusal, expectedOffset }: AppendRecord,
  log: readonly SeenEvent[],
): Iterable<string> {
  const { at, byMetadata } = indexOf(log);
  for (const receipts of answers) {
    if (receipts.length !== events.length)
      yield `append ${appendId} was answered ${receipts.length} receipts for ${events.length} events`;
    for (const [index, { offset }] of receipts.entries()) {
      const stored = at.get(offset);
      if (stored === undefined) yield `append ${appendId} was acknowledged at ${offset} of ${context}, where nothing is`;
      else if (!isSame(stored, events[index]!))
        yield `append ${appendId} was acknowledged at ${offset} of ${context}, where another event is`;
    }
    if (JSON.stringify(receipts.map(({ offset }) => offset)) !== JSON.stringify(answers[0]!.map(({ offset }) => offset)))
      yield `append ${appendId} to ${context} was acknowledged twice, at different offsets`;
    const added = receipts.find(({ existing }) => !existing);
    if (expectedOffset !== null && added !== undefined && added.offset !== expectedOffset)
      yield `append ${appendId} to ${context} landed at ${added.offset}, not at ${expectedOffset} as it asked`;
  }
  // Metadata names append and place, but for keyed events, which the first to use the key wrote.
  const own = events.filter(({ key }) => key === "");
  const offsets = own.flatMap(({ metadata }) => (byMetadata.get(metadata) ?? []).map(({ offset }) => offset));
  if (answers.length > 0) {
    if (offsets.length > own.length) yield `append ${appendId} is in ${context} more than once, at ${offsets.join()}`;
    return;
  }
  if (refusal !== null && offsets.length > 0) yield `append ${appendId} was refused, and is in ${context} at ${offsets.join()}`;
  if (refusal === null && offsets.length !== 0 && offsets.length !== own.length)
    yield `append ${appendId} is in ${context} by halves: ${offsets.length} of ${own.length} events`;
}

function* ordered({ reads, appends }: History, { logs, commits }: Truth): Iterable<string> {
  const [first = new Map<string, readonly SeenEvent[]>()] = logs;
  for (const log of logs)
    for (const [context, events] of log) {
      for (const [index, { offset }] of events.entries())
        if (index > 0 && offset <= events[index - 1]!.offset) yield `${context} has ${offset} after ${events[index - 1]!.offset}`;
      const other = first.get(context) ?? [];
      if (!isSameList(events, other)) yield `two processes answer different logs of ${context}`;
    }
  for (const { context, after, through, events } of reads)
    if (!isSameList(events, between(first.get(context) ?? [], after, through)))
      yield `a page of ${context} from ${after} to ${through} is not what is there now`;
  const takenBy = new Map<string, string>();
  for (const { context, appendId, answers } of appends)
    for (const [index, { offset, existing }] of (answers[0] ?? []).entries()) {
      if (existing) continue;
      const place = `${context} ${offset}`;
      const holder = takenBy.get(place);
      if (holder !== undefined) yield `offset ${offset} of ${context} was given to ${holder} and to ${appendId}#${index}`;
      takenBy.set(place, `${appendId}#${index}`);
    }
  for (const [context, rows] of commits) yield* dense(context, rows, first.get(context) ?? []);
}

function* dense(context: string, rows: readonly CommitSeen[], log: readonly SeenEvent[]): Iterable<string> {
  let last = 0;
  for (const [index, { commitNo, firstOffset, lastOffset }] of rows.entries()) {
    if (commitNo !== index + 1) yield `${context} has commit ${commitNo} at place ${index + 1}`;
    if (firstOffset <= last) yield `commit ${commitNo} of ${context} begins at ${firstOffset}, at or below ${last}`;
    last = Math.max(last, lastOffset);
  }
  const covered = new Set(rows.flatMap(({ firstOffset, lastOffset }) => range(firstOffset, lastOffset)));
  for (const { offset } of log) if (!covered.delete(offset)) yield `offset ${offset} of ${context} is in no commit`;
  for (const offset of covered) yield `offset ${offset} of ${context} is committed, and not in the log`;
}

function* oneEventPerKey({ appends }: History, { logs }: Truth): Iterable<string> {
  for (const [context, events] of logs[0] ?? [])
    for (const [key, holders] of Map.groupBy(
      events.filter((event) => event.key !== ""),
      (event) => event.key,
    ))
      if (holders.length > 1) yield `key ${key} of ${context} is on ${holders.map(({ offset }) => offset).join()}`;
  const told = new Map<string, number>();
  for (const { context, events, answers } of appends)
    for (const receipts of answers)
      for (const [index, { offset }] of receipts.entries()) {
        const key = events[index]?.key ?? "";
        if (key === "") continue;
        const before = told.get(`${context} ${key}`);
        if (before !== undefined && before !== offset)
          yield `key ${key} of ${context} was told to be at ${before} and at ${offset}`;
        told.set(`${context} ${key}`, offset);
      }
}

function* folded(_: History, { logs, commits, descriptions, storedSubscriptions }: Truth): Iterable<string> {
  const log = logs[0] ?? new Map<string, readonly SeenEvent[]>();
  for (const { context, headOffset, commitNo, subscriptions } of descriptions) {
    const expected = subscriptionsOf(log.get(context) ?? []);
    if (!isSameRecord(subscriptions, expected))
      yield `${context} is described with ${JSON.stringify(subscriptions)}, its log says ${JSON.stringify(expected)}`;
    const last = commits.get(context)?.at(-1);
    if (last !== undefined && (commitNo !== last.commitNo || headOffset !== last.lastOffset))
      yield `${context} is described at commit ${commitNo} and offset ${headOffset}, not at ${last.commitNo} and ${last.lastOffset}`;
  }
  for (const [context, stored] of storedSubscriptions) {
    const expected = subscriptionsOf(log.get(context) ?? []);
    if (!isSameRecord(stored, expected))
      yield `${context} is stored with ${JSON.stringify(stored)}, its log says ${JSON.stringify(expected)}`;
  }
}

/** The fold, told anew: the last configuration of each name, unless it removed the row. */
export function subscriptionsOf(log: readonly SeenEvent[]): Record<string, number> {
  const rows: Record<string, number> = {};
  for (const { type, payload, offset } of log) {
    if (type !== itx.subscriptionConfigured.type) continue;
    const { name, target } = JSON.parse(payload) as { name: string; target: unknown };
    if (target === null) delete rows[name];
    else rows[name] = offset;
  }
  return rows;
}

function* gapless({ streams, waits, feeds }: History, { logs, commits }: Truth): Iterable<string> {
  const log = logs[0] ?? new Map<string, readonly SeenEvent[]>();
  for (const { context, after, through, events } of streams) {
    const expected = between(log.get(context) ?? [], after, through);
    if (!isSameList(events, expected)) yield `a subscriber of ${context} saw ${difference(events, expected)}`;
    const end = log.get(context)?.at(-1)?.offset ?? 0;
    if (through < end) yield `a subscriber of ${context} ended at ${through}, before its head ${end}`;
  }
  for (const { context, type, after, event } of waits) {
    const first = (log.get(context) ?? []).find((one) => one.type === type && one.offset > after);
    if (first === undefined || !isSame(first, event) || first.offset !== event.offset)
      yield `a wait in ${context} for ${type} after ${after} was answered ${event.offset}, the first is ${first?.offset}`;
  }
  for (const { partition, commits: seen } of feeds) yield* fed(partition, seen, commits);
}

function* fed(partition: number, seen: readonly CommitSeen[], commits: Truth["commits"]): Iterable<string> {
  const byContext = Map.groupBy(seen, ({ context }) => context);
  for (const [context, rows] of byContext) {
    const expected = commits.get(context);
    if (expected === undefined) continue;
    const numbers = rows.map(({ commitNo }) => commitNo).join();
    if (numbers !== expected.map(({ commitNo }) => commitNo).join())
      yield `the feed of partition ${partition} told of commits ${shortened(numbers)} of ${context}, there are ${expected.length}`;
    for (const [index, row] of rows.entries()) {
      const truth = expected[index];
      if (truth !== undefined && truth.commitNo === row.commitNo && truth.lastOffset !== row.lastOffset)
        yield `the feed of partition ${partition} told that commit ${row.commitNo} of ${context} ends at ${row.lastOffset}, not ${truth.lastOffset}`;
    }
  }
}

function* atRest(_: History, { runner }: Truth): Iterable<string> {
  for (const { context, status, cursor, dueInMs, owed } of runner?.deliveries ?? []) {
    const wanted = runner!.consumed.get(context)?.at(-1) ?? 0;
    const isTerminal = status === "removed" || status === "halted";
    const isDone = cursor >= wanted && owed === 0;
    if (!isTerminal && !isDone && (dueInMs === null || dueInMs < 0))
      yield `the delivery of ${context} stands at ${cursor} of ${wanted}, owes ${owed} events and is due at no future time`;
  }
}

function* recordedOnce(_: History, { runner }: Truth): Iterable<string> {
  for (const [context, consumed] of runner?.consumed ?? []) {
    const counts = new Map<number, number>();
    for (const offset of runner!.emitted.get(context) ?? []) counts.set(offset, (counts.get(offset) ?? 0) + 1);
    for (const offset of consumed)
      if (counts.get(offset) !== 1) yield `event ${offset} of ${context} was answered ${counts.get(offset) ?? 0} times`;
    for (const offset of counts.keys())
      if (!consumed.includes(offset)) yield `${context} holds an answer to ${offset}, which is no event`;
  }
}

function* leasesOfTheLiving(_: History, { runner }: Truth): Iterable<string> {
  for (const { partition, pod, leftMs } of runner?.leases ?? []) {
    if (pod === null || runner!.alive.includes(pod)) continue;
    if (leftMs > 0) yield `partition ${partition} is held for ${leftMs} ms more by ${pod}, which is dead`;
    else yield `partition ${partition} is nobody's: its dead owner ${pod} has not been followed`;
  }
}

const bearer = /\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}/;

function* secretless(_: History, { writings, secrets }: Truth): Iterable<string> {
  for (const { where, text } of writings) {
    for (const { what, text: secret } of secrets) {
      const spellings = [secret, Buffer.from(secret).toString("base64").replace(/=+$/, ""), Buffer.from(secret).toString("hex")];
      if (spellings.some((spelling) => text.includes(spelling))) yield `${where} holds ${what}`;
    }
    if (bearer.test(text)) yield `${where} holds a token`;
  }
}

/** Every body of the load names its owner. */
function* apart({ reads, streams, waits }: History, { logs }: Truth): Iterable<string> {
  const seen = [
    ...reads.map(({ context, events }) => ({ context, events })),
    ...streams.map(({ context, events }) => ({ context, events })),
    ...waits.map(({ context, event }) => ({ context, events: [event] })),
    ...logs.flatMap((log) => [...log].map(([context, events]) => ({ context, events }))),
  ];
  for (const { context, events } of seen) {
    const [owner = ""] = context.split(" ");
    for (const { offset, metadata } of events)
      if (metadata !== "" && !metadata.includes(owner)) yield `${context} answered at ${offset} an event of another project`;
  }
}

interface LogIndex {
  readonly at: ReadonlyMap<number, SeenEvent>;
  readonly byMetadata: ReadonlyMap<string, readonly SeenEvent[]>;
}

const indexes = new WeakMap<readonly SeenEvent[], LogIndex>();

function indexOf(log: readonly SeenEvent[]): LogIndex {
  const held = indexes.get(log);
  if (held !== undefined) return held;
  const index = {
    at: new Map(log.map((event) => [event.offset, event])),
    byMetadata: Map.groupBy(log, ({ metadata }) => metadata),
  };
  indexes.set(log, index);
  return index;
}

function isSame(stored: SentEvent, sent: SentEvent): boolean {
  return (
    stored.type === sent.type && stored.payload === sent.payload && stored.metadata === sent.metadata && stored.key === sent.key
  );
}

function isSameList(one: readonly SeenEvent[], other: readonly SeenEvent[]): boolean {
  return (
    one.length === other.length &&
    one.every((event, index) => event.offset === other[index]!.offset && isSame(event, other[index]!))
  );
}

function isSameRecord(one: Readonly<Record<string, number>>, other: Readonly<Record<string, number>>): boolean {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => one[name] === other[name]);
}

function between(log: readonly SeenEvent[], after: number, through: number): SeenEvent[] {
  return log.filter(({ offset }) => offset > after && offset <= through);
}

function range(first: number, last: number): number[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index);
}

function difference(seen: readonly SeenEvent[], expected: readonly SeenEvent[]): string {
  const index = seen.findIndex(
    (event, at) => expected[at] === undefined || !isSame(event, expected[at]) || event.offset !== expected[at].offset,
  );
  const at = index < 0 ? seen.length : index;
  return `${seen[at]?.offset ?? "nothing"} where ${expected[at]?.offset ?? "nothing"} follows ${expected[at - 1]?.offset ?? "the start"}`;
}

function shortened(text: string): string {
  return text.length <= 80 ? text : `${text.slice(0, 40)} … ${text.slice(-40)}`;
}
