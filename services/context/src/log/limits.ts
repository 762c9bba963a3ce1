/** Published limits of the log. Bytes are bytes of UTF-8; each is checked before anything is written. */
import { itx } from "iterate/events";

const MiB = 1_048_576;

export const appendLimits = {
  /** Events of one append. */
  events: 1_000,
  /** Payload and metadata of one event. */
  eventBytes: 8 * MiB,
  /** All events of one append: bodies, keys and types. */
  batchBytes: 16 * MiB,
  typeBytes: 256,
  keyBytes: 512,
  /** Slug and version of a processor, each. */
  labelBytes: 256,
  principalBytes: 512,
  chainBytes: 256,
  /** The payload of a type the core state folds. */
  controlBytes: MiB / 4,
  /** The payload of a rule: its target, with its declarations and prose. */
  ruleBytes: MiB + MiB / 4,
  /** A W3C traceparent. */
  traceparentBytes: 64,
} as const;

/** Control types that carry a program, its result or declarations, which their contract bounds. */
const largeControls: ReadonlyMap<string, number> = new Map([
  [itx.runRequested.type, appendLimits.eventBytes],
  [itx.runSettled.type, appendLimits.eventBytes],
  [itx.rewriteRuleConfigured.type, appendLimits.ruleBytes],
]);

/** Most bytes of the payload of a control type. */
export function controlBytesOf(type: string): number {
  return largeControls.get(type) ?? appendLimits.controlBytes;
}

/** Of one look at a log. */
export const readLimits = {
  /** Events of a page, and of one that names no number. */
  events: 1_000,
  defaultEvents: 500,
  /** Bodies of a page. */
  bytes: 8_388_608,
  types: 100,
  typeBytes: 256,
  /** The payload a waiter asks for. */
  payloadBytes: 65_536,
  waitMs: 120_000,
  defaultWaitMs: 30_000,
  /** Commits of a page of the feed. */
  commits: 1_000,
  defaultCommits: 500,
} as const;

/** Of one database statement and of what may wait for one. */
export const queueLimits = {
  /** Appends of one statement. */
  groupAppends: 1_024,
  /** Bytes of one statement; an append over it goes alone on a connection of its own. */
  groupBytes: MiB,
  /** Appends taken from one context before its owner's next context, or the next owner, has its turn. */
  quantum: 64,
  /** Appends that may wait in this process; one more is OVERLOADED. */
  waitingAppends: 65_536,
  /** Bytes that may wait in this process. */
  waitingBytes: 256 * MiB,
} as const;
