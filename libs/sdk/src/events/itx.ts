/** Events of the context engine itself. */
import { z } from "zod";
import { eventType } from "./event-type.js";
import { callField } from "./expression-field.js";
import { fetchRoutePayload, fetchTarget } from "./route-payload.js";
import { rulePayload } from "./rule-payload.js";

export { fetchRouteLimits } from "./route-payload.js";
export { isConfigMatch, publishedCode, ruleLimits } from "./rule-payload.js";

const offset = z.int().nonnegative();
const failure = z.object({ code: z.string(), message: z.string().max(2000), stack: z.string().max(8192).optional() });

/** Letters, digits, `_` and `-`; the words that would meet object prototypes are refused. */
export const subscriptionName = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,128}$/)
  .refine((name) => !["core", "constructor", "prototype", "__proto__"].includes(name), "is reserved");

export const created = eventType("itx/created", z.object({ owner: z.string(), path: z.string() }), {
  description: "The context was born; its first event.",
  writer: "platform",
  control: true,
});

export const childCreated = eventType("itx/child-created", z.object({ childPath: z.string() }), {
  description: "A context one name below was born; told to its parent alone, if that was born before.",
  writer: "platform",
});

export const paused = eventType("itx/paused", z.object({ reason: z.string().max(1024).optional() }), {
  description: "The context takes no events but the platform's records and a resume.",
  writer: "anyone",
  control: true,
});

export const resumed = eventType("itx/resumed", z.object({}), {
  description: "A paused context takes every event again.",
  writer: "anyone",
  control: true,
});

export const aborted = eventType(
  "itx/aborted",
  z.object({
    reason: z.string().max(1024).optional(),
    /** Path of the context the call that asked for it started at. */
    callerPath: z.string().max(1024).optional(),
  }),
  { description: "What processes remember of the context was let go; what is stored stays.", writer: "anyone" },
);

export const subscriptionConfigured = eventType(
  "itx/subscription-configured",
  z.object({
    name: subscriptionName,
    /** What receives the events; null removes the row. */
    target: callField.nullable(),
    /** Types delivered; absent means every event. */
    consumes: z.array(z.string().min(1).max(256)).max(100).optional(),
    /** Offset after which delivery starts; absent means after this event. */
    afterOffset: offset.optional(),
    /** With a null target: remove only the row that the event at this offset configured. */
    ifConfiguredAtOffset: offset.optional(),
  }),
  {
    description: "A row of the subscription table was set or removed.",
    writer: "anyone",
    control: true,
    family: "itx/subscription-",
  },
);

export const subscriptionDeliveryHalted = eventType(
  "itx/subscription-delivery-halted",
  z.object({
    name: subscriptionName,
    /** The cursor: everything at or below it was delivered. */
    afterOffset: offset,
    /** The event that could not be delivered, once it is known alone. */
    offset: offset.optional(),
    attempts: z.int().positive(),
    error: failure,
  }),
  {
    description: "A subscription's attempts are used up or cannot help; delivery waits for a resume.",
    writer: "platform",
    control: true,
    family: "itx/subscription-",
  },
);

export const subscriptionDeliveryFailed = eventType(
  "itx/subscription-delivery-failed",
  z.object({
    name: subscriptionName,
    /** Id of the emitted row that was refused. */
    emit: z.string(),
    /** Type of the event that was refused. */
    type: z.string(),
    error: failure,
  }),
  {
    description: "An emitted event was refused for good and is kept as a dead letter.",
    writer: "platform",
    family: "itx/subscription-",
  },
);

export const subscriptionDeliveryResumed = eventType(
  "itx/subscription-delivery-resumed",
  z.object({
    name: subscriptionName,
    /** Continue after this offset; absent continues at the cursor. */
    afterOffset: offset.optional(),
  }),
  {
    description: "A halted subscription was told to continue, or to continue from another place.",
    writer: "anyone",
    control: true,
    family: "itx/subscription-",
  },
);

/** Bounds of schedules. Bytes are of UTF-8 and of JSON as it is written; times are milliseconds. */
export const scheduleLimits = {
  keyBytes: 200,
  /** Events of one schedule. */
  events: 100,
  /** The payload of one `schedule-set`. */
  definitionBytes: 65_536,
  /** How far ahead a schedule may be set: 365 days. */
  delayMs: 31_536_000_000,
  minIntervalMs: 1_000,
  /** Schedules of one context, and the bytes of their events. */
  perContext: 100,
  bytesPerContext: 1_048_576,
  /** Missed occurrences that `catchUp: "all"` may fire one by one. */
  maxCaughtUp: 100,
  patternLength: 256,
  zoneLength: 64,
  errorLength: 2_000,
} as const;

const scheduleKey = z
  .string()
  .min(1)
  .refine((key) => new TextEncoder().encode(key).length <= scheduleLimits.keyBytes, `is over ${scheduleLimits.keyBytes} bytes`);

/** A time with its offset from UTC, to the millisecond. */
const time = z.iso.datetime({ offset: true }).refine((text) => !/\.\d{4}/.test(text), "is finer than a millisecond");

const cronPattern = z.string().min(1).max(scheduleLimits.patternLength);
const timeZone = z.string().min(1).max(scheduleLimits.zoneLength);

export const scheduleSet = eventType(
  "itx/schedule-set",
  z.object({
    /** Names the schedule in its context: setting it again replaces it. */
    key: scheduleKey,
    /** Once at a time or after a delay; again and again at an interval, or by a cron pattern of five fields on the clock of a time zone. */
    when: z.union([
      z.strictObject({ at: time }),
      z.strictObject({ afterMs: z.int().min(0).max(scheduleLimits.delayMs) }),
      z.strictObject({ everyMs: z.int().min(scheduleLimits.minIntervalMs).max(scheduleLimits.delayMs) }),
      z
        .strictObject({
          cron: cronPattern,
          /** Name of the IANA database. */
          timeZone,
          /** What becomes of occurrences that were missed: one firing for all, none, or the newest `max` of them one by one. */
          catchUp: z.enum(["coalesce", "skip", "all"]).optional(),
          max: z.int().min(1).max(scheduleLimits.maxCaughtUp).optional(),
        })
        .refine(({ catchUp, max }) => (catchUp === "all") === (max !== undefined), 'takes max exactly with catchUp "all"'),
    ]),
    /** What is appended, as one batch, each time it is due. */
    events: z
      .array(z.strictObject({ type: z.string().min(1).max(256), payload: z.json().optional(), metadata: z.json().optional() }))
      .min(1)
      .max(scheduleLimits.events),
  }),
  {
    description:
      "Events were scheduled: for once, at an interval or by a calendar; under the key of another schedule, in its place.",
    writer: "anyone",
    control: true,
    family: "itx/schedule-",
  },
);

export const scheduleCancelled = eventType(
  "itx/schedule-cancelled",
  z.object({
    key: scheduleKey,
    /** Cancel only the definition that the event at this offset made; another one stays. */
    ifScheduledAtOffset: offset.optional(),
  }),
  { description: "A schedule was taken away.", writer: "anyone", control: true, family: "itx/schedule-" },
);

export const scheduleFired = eventType(
  "itx/schedule-fired",
  z.object({
    key: scheduleKey,
    /** Offset of the definition. */
    scheduledAtOffset: offset,
    /** When it was due. */
    at: time,
    /** The first of the occurrences that were skipped before this one, when some were. */
    since: time.optional(),
    /** When it is due next; null ends the schedule. */
    nextAt: time.nullable(),
  }),
  {
    description: "A schedule was due and its events, just before this one, were appended.",
    writer: "platform",
    control: true,
    family: "itx/schedule-",
  },
);

export const scheduleFailed = eventType(
  "itx/schedule-failed",
  z.object({
    key: scheduleKey,
    scheduledAtOffset: offset,
    /** When the refused occurrence was due. */
    at: time.optional(),
    error: z.string().max(scheduleLimits.errorLength),
  }),
  {
    description: "The events of a schedule were refused; it rests until it is set again.",
    writer: "platform",
    control: true,
    family: "itx/schedule-",
  },
);

export const rewriteRuleConfigured = eventType("itx/rewrite-rule-configured", rulePayload, {
  description:
    "A rule says what calls that begin with its match stand for, or masks them; the row `itx.config`, which the platform alone writes, is the published code of the project.",
  writer: "anyone",
  control: true,
});
/** Bounds of runs. Bytes are of UTF-8, and of JSON as it is written. */
export const runLimits = {
  codeBytes: 1_048_576,
  resultBytes: 1_048_576,
  /** How long a run may take, and how long it may when nobody says: 10 minutes. */
  deadlineMs: 600_000,
  /** Runs of one context that are not settled. */
  open: 1_000,
  limitKeyBytes: 256,
} as const;

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;

export const runRequested = eventType(
  "itx/run-requested",
  z.object({
    code: z.string().refine((code) => bytesOf(code) <= runLimits.codeBytes, `is over ${runLimits.codeBytes} bytes`),
    /** How long it may take, from when the platform takes it up. */
    deadlineMs: z.int().min(1).max(runLimits.deadlineMs).optional(),
    /** The run of this context that this one repeats, or goes on from with other code. */
    ancestor: z.object({ requestOffset: z.int().positive(), kind: z.enum(["restart", "fork"]) }).optional(),
    /** What limits count it by. */
    limitKey: z
      .string()
      .min(1)
      .refine((key) => bytesOf(key) <= runLimits.limitKeyBytes, `is over ${runLimits.limitKeyBytes} bytes`)
      .optional(),
  }),
  {
    description: "A run of code was asked for; it is named by the offset of this event.",
    writer: "anyone",
    control: true,
    family: "itx/run-",
  },
);

export const runSettled = eventType(
  "itx/run-settled",
  z.object({
    requestOffset: z.int().positive(),
    settlement: z.union([
      z.strictObject({
        outcome: z.literal("succeeded"),
        /** Absent when the run answered nothing, or when what it answered is too large: `omitted` in the metadata then says how large. */
        result: z
          .json()
          .refine((result) => bytesOf(JSON.stringify(result)) <= runLimits.resultBytes, `is over ${runLimits.resultBytes} bytes`)
          .optional(),
      }),
      z.strictObject({
        outcome: z.literal("failed"),
        error: failure,
        /** Its own failure, its deadline, or the end of the incarnation that had taken it up. */
        failureKind: z.enum(["runtime", "deadline", "interrupted"]),
      }),
    ]),
  }),
  { description: "A run ended; every run ends once.", writer: "platform", control: true, family: "itx/run-" },
);

export const woken = eventType(
  "itx/woken",
  z.object({
    /** Epoch of the owner of the context's partition. */
    incarnation: z.int().positive(),
    cause: z.enum(["take-over"]),
  }),
  { description: "Another incarnation of the context began, and found work of the former one.", writer: "platform", control: true },
);

export const fetchRouteConfigured = eventType("itx/fetch-route-configured", fetchRoutePayload, {
  description: "In the root of a project: which capability answers which HTTP requests was set, or taken away.",
  writer: "anyone",
  control: true,
});

export const ingressConfigured = eventType(
  "itx/ingress-configured",
  z.object({
    /** What answers; null: nothing but the published code, `itx.config`. */
    target: fetchTarget.nullable(),
  }),
  {
    description: "In the root of a project: what answers the HTTP requests that no fetch route takes was set.",
    writer: "anyone",
    control: true,
  },
);

/** An exact name, or everything that begins with what is before a `*` at its end. */
const pattern = z
  .string()
  .min(1)
  .max(1024)
  .refine((text) => !text.slice(0, -1).includes("*"), "may hold a * at its end alone");

/** Bounds of an append policy: rules, and patterns of each kind in one rule. */
export const appendPolicyLimits = { rules: 100, patterns: 100 } as const;

export const appendPolicyConfigured = eventType(
  "itx/append-policy-configured",
  z.object({
    /** Who alone may append what where; an append must satisfy every rule that covers it. Null takes the policy away. */
    rules: z
      .array(
        z.object({
          /** Types the rule covers. */
          types: z.array(pattern).min(1).max(appendPolicyLimits.patterns),
          /** Contexts of the project it covers. */
          paths: z.array(pattern).min(1).max(appendPolicyLimits.patterns),
          /** Contexts whose code may append what is covered, `/` standing for people too; none means the platform alone. */
          origins: z.array(pattern).max(appendPolicyLimits.patterns),
        }),
      )
      .max(appendPolicyLimits.rules)
      .nullable(),
  }),
  {
    description: "In the root of a project: which origins may append which types to which paths was decided.",
    writer: "anyone",
    control: true,
  },
);

export const loopLimit = eventType("itx/loop-limit", z.object({ chain: z.string(), depth: z.int(), error: z.string().max(1024) }), {
  description: "A chain of reactions was stopped here; recorded once for each chain.",
  writer: "platform",
});

export const workFailed = eventType("itx/work-failed", z.object({ facet: z.string(), error: failure }), {
  description: "Background work of a processor failed for good.",
  writer: "platform",
});

/** Ages that may be asked for: nothing younger than a minute goes, and 100 years is for ever. */
export const retentionAgeMs = { min: 60_000, max: 3_155_760_000_000 } as const;

export const retentionConfigured = eventType(
  "itx/retention-configured",
  z.object({
    /** What stays: events from an offset on, or younger than an age; null keeps everything that is there. */
    keepFrom: z
      .union([
        z.strictObject({ offset: z.int().positive() }),
        z.strictObject({ maxAgeMs: z.int().min(retentionAgeMs.min).max(retentionAgeMs.max) }),
      ])
      .nullable(),
  }),
  { description: "How much of its past the context keeps was set.", writer: "anyone", control: true },
);

export const logTruncated = eventType(
  "itx/log-truncated",
  z.object({
    /** Events below it cannot be read any more. */
    firstOffset: z.int().positive(),
    /** The state of the context that this was decided from; a subscription or setting newer than that voids the decision. */
    decidedAtOffset: offset,
    /** Subscriptions that were halted for so long that events they had not been delivered went. */
    undelivered: z.array(subscriptionName).max(1_000),
  }),
  { description: "The oldest events of the context were given up.", writer: "platform", control: true },
);

export const logRestored = eventType("itx/log-restored", z.object({ lostAfter: offset }), {
  description: "The log was restored from a backup; offsets above this one may have been lost.",
  writer: "platform",
});
