/** The checker finds what it is there to find: a history that keeps every promise, and for each promise one that breaks it. */
import { itx } from "iterate/events";
import { describe, expect, test } from "vitest";
import { History, type AppendRecord, type RunnerBooks, type SeenEvent, type SentEvent, type Truth } from "./history.js";
import { violations } from "./invariants.js";

const context = "prj_a /x";
const sent = (mark: string, change: Partial<SentEvent> = {}): SentEvent => ({
  type: "test/a",
  payload: `{"mark": "${mark}"}`,
  metadata: `{"owner":"prj_a","mark":"${mark}"}`,
  key: "",
  ...change,
});
const subscribed = sent("2", { type: itx.subscriptionConfigured.type, payload: '{"name":"s","target":["itx"]}' });
const keyed = sent("k", { key: "k" });
const born: SeenEvent = { type: "created", payload: "{}", metadata: "", key: "", offset: 1 };
const log: SeenEvent[] = [born, { ...sent("1"), offset: 2 }, { ...subscribed, offset: 3 }, { ...keyed, offset: 4 }];
const append = (events: SentEvent[], offset: number, change: Partial<AppendRecord> = {}): AppendRecord => ({
  context,
  appendId: `at ${offset}`,
  events,
  expectedOffset: null,
  answers: [events.map((_, index) => ({ offset: offset + index, existing: false }))],
  refusal: null,
  ...change,
});
const books: RunnerBooks = {
  deliveries: [{ context, status: "active", cursor: 4, dueInMs: null, owed: 0 }],
  emitted: new Map([[context, [2]]]),
  consumed: new Map([[context, [2]]]),
  leases: [
    { partition: 0, pod: "alive", leftMs: 1_000 },
    { partition: 1, pod: null, leftMs: -1 },
  ],
  alive: ["alive"],
};

interface Case {
  readonly history: History;
  truth: Truth;
}

/** Everything as it should be. */
function intact(): Case {
  const history = new History();
  history.appends.push(append([sent("1"), subscribed], 2), append([keyed], 4));
  history.appends.push(append([keyed], 4, { answers: [[{ offset: 4, existing: true }]] }));
  history.appends.push(append([sent("never")], 9, { answers: [], refusal: "OFFSET_CONFLICT" }));
  history.appends.push(append([sent("unknown"), sent("too")], 9, { answers: [] }));
  history.reads.push({ context, after: 1, through: 4, isAtHead: true, mustSee: 4, events: log.slice(1) });
  history.streams.push({ context, after: 0, through: 4, events: [...log] });
  history.waits.push({ context, type: "test/a", after: 1, event: log[1]! });
  history.feeds.push({
    partition: 7,
    commits: [
      { context, commitNo: 1, firstOffset: 1, lastOffset: 3 },
      { context, commitNo: 2, firstOffset: 4, lastOffset: 4 },
    ],
  });
  const truth: Truth = {
    logs: [new Map([[context, log]]), new Map([[context, [...log]]])],
    commits: new Map([[context, [...history.feeds[0]!.commits]]]),
    descriptions: [{ context, headOffset: 4, commitNo: 2, subscriptions: { s: 3 } }],
    storedSubscriptions: new Map([[context, { s: 3 }]]),
    writings: [{ where: "a log", text: "it said nothing of note" }],
    secrets: [{ what: "a password", text: "hunter22" }],
    runner: books,
  };
  return { history, truth };
}

const logOf = (events: readonly SeenEvent[]): Truth["logs"] => [new Map([[context, events]]), new Map([[context, [...events]]])];

test("a history that keeps every promise has no violation", () => {
  const { history, truth } = intact();
  expect(violations(history, truth)).toEqual([]);
});

const broken: [number, string, (given: Case) => void][] = [
  [0, "a client was told a fault", ({ history }) => history.unexpected.push({ call: "append", code: "INTERNAL", message: "oh" })],
  [
    0,
    "an append was refused for no reason",
    ({ history }) => history.appends.push(append([sent("z")], 9, { answers: [], refusal: "INTERNAL" })),
  ],
  [1, "an acknowledged event is gone", (given) => (given.truth = { ...given.truth, logs: logOf(log.slice(0, 3)) })],
  [
    1,
    "an acknowledged event has other bytes",
    ({ history }) => history.appends.push(append([sent("1", { payload: '{"mark":"1"}' })], 2)),
  ],
  [1, "an acknowledged event is one offset off", ({ history }) => history.appends.push(append([sent("1")], 3))],
  [
    1,
    "an append that was never answered is there by halves",
    ({ history }) => history.appends.push(append([sent("1"), sent("lost")], 2, { answers: [] })),
  ],
  [
    1,
    "a refused append is there",
    ({ history }) => history.appends.push(append([sent("1")], 2, { answers: [], refusal: "OFFSET_CONFLICT" })),
  ],
  [
    1,
    "a read missed what was acknowledged before it",
    ({ history }) => history.reads.push({ context, after: 0, through: 3, isAtHead: true, mustSee: 4, events: log.slice(0, 3) }),
  ],
  [
    1,
    "an append was acknowledged twice, at two places",
    ({ history }) =>
      history.appends[0]!.answers.push([
        { offset: 3, existing: false },
        { offset: 4, existing: false },
      ]),
  ],
  [
    1,
    "an append landed elsewhere than it asked",
    ({ history }) => history.appends.push(append([sent("1")], 2, { expectedOffset: 7 })),
  ],
  [
    1,
    "an append is in the log twice",
    (given) => {
      const twice = [...log, { ...sent("1"), offset: 5 }];
      given.truth = { ...given.truth, logs: logOf(twice) };
    },
  ],
  [2, "an offset comes twice", (given) => (given.truth = { ...given.truth, logs: logOf([...log, log[3]!]) })],
  [2, "an offset was given to two appends", ({ history }) => history.appends.push(append([sent("1")], 2))],
  [
    2,
    "an event changed after it was read",
    ({ history }) =>
      history.reads.push({ context, after: 1, through: 2, isAtHead: false, mustSee: 0, events: [{ ...log[1]!, payload: "1" }] }),
  ],
  [
    2,
    "two processes answer two logs",
    (given) => (given.truth = { ...given.truth, logs: [given.truth.logs[0]!, new Map([[context, log.slice(1)]])] }),
  ],
  [
    2,
    "a commit number is missing",
    (given) =>
      (given.truth = { ...given.truth, commits: new Map([[context, [{ context, commitNo: 2, firstOffset: 1, lastOffset: 4 }]]]) }),
  ],
  [
    2,
    "two commits overlap",
    (given) => {
      const rows = [
        { context, commitNo: 1, firstOffset: 1, lastOffset: 3 },
        { context, commitNo: 2, firstOffset: 3, lastOffset: 4 },
      ];
      given.truth = { ...given.truth, commits: new Map([[context, rows]]) };
    },
  ],
  [
    3,
    "a key is on two events",
    (given) => (given.truth = { ...given.truth, logs: logOf([...log, { ...sent("m"), key: "k", offset: 5 }]) }),
  ],
  [
    3,
    "a key was told to be at two places",
    ({ history }) => history.appends.push(append([keyed], 4, { answers: [[{ offset: 3, existing: true }]] })),
  ],
  [
    4,
    "a process describes another state than its log's",
    (given) => (given.truth = { ...given.truth, descriptions: [{ context, headOffset: 4, commitNo: 2, subscriptions: {} }] }),
  ],
  [
    4,
    "a stored state is an older one",
    (given) => (given.truth = { ...given.truth, storedSubscriptions: new Map([[context, { s: 2 }]]) }),
  ],
  [
    4,
    "a process is behind the head",
    (given) => (given.truth = { ...given.truth, descriptions: [{ context, headOffset: 3, commitNo: 1, subscriptions: { s: 3 } }] }),
  ],
  [
    5,
    "a subscriber missed an event",
    ({ history }) => history.streams.push({ context, after: 0, through: 4, events: [log[0]!, log[1]!, log[3]!] }),
  ],
  [
    5,
    "a subscriber saw one twice",
    ({ history }) => history.streams.push({ context, after: 0, through: 4, events: [log[0]!, log[1]!, log[1]!, log[2]!, log[3]!] }),
  ],
  [
    5,
    "a subscriber saw two in the wrong order",
    ({ history }) => history.streams.push({ context, after: 0, through: 4, events: [log[0]!, log[2]!, log[1]!, log[3]!] }),
  ],
  [
    5,
    "a subscriber was left behind",
    ({ history }) => history.streams.push({ context, after: 0, through: 3, events: log.slice(0, 3) }),
  ],
  [
    5,
    "a wait was answered a later event than the first",
    ({ history }) => history.waits.push({ context, type: "test/a", after: 1, event: log[3]! }),
  ],
  [5, "the feed skipped a commit", ({ history }) => history.feeds[0]!.commits.pop()],
  [5, "the feed told of a commit twice", ({ history }) => history.feeds[0]!.commits.push(history.feeds[0]!.commits[1]!)],
  [
    6,
    "a delivery stands still and is never due",
    (given) =>
      (given.truth = {
        ...given.truth,
        runner: { ...books, deliveries: [{ context, status: "active", cursor: 1, dueInMs: null, owed: 0 }] },
      }),
  ],
  [
    6,
    "a delivery owes events and is overdue",
    (given) =>
      (given.truth = {
        ...given.truth,
        runner: { ...books, deliveries: [{ context, status: "retrying", cursor: 4, dueInMs: -5, owed: 1 }] },
      }),
  ],
  [
    7,
    "an event was answered twice",
    (given) => (given.truth = { ...given.truth, runner: { ...books, emitted: new Map([[context, [2, 2]]]) } }),
  ],
  [7, "an event was not answered", (given) => (given.truth = { ...given.truth, runner: { ...books, emitted: new Map() } })],
  [8, "a dead owner holds a lease", (given) => (given.truth = { ...given.truth, runner: { ...books, alive: [] } })],
  [
    8,
    "a dead owner has no heir",
    (given) => (given.truth = { ...given.truth, runner: { ...books, leases: [{ partition: 1, pod: "dead", leftMs: -9 }] } }),
  ],
  [
    9,
    "a secret is in a log",
    (given) => (given.truth = { ...given.truth, writings: [{ where: "a log", text: "it is hunter22" }] }),
  ],
  [
    9,
    "a secret is in a log in another spelling",
    (given) => (given.truth = { ...given.truth, writings: [{ where: "a log", text: Buffer.from("hunter22").toString("hex") }] }),
  ],
  [
    9,
    "a token is in a log",
    (given) =>
      (given.truth = {
        ...given.truth,
        writings: [{ where: "a log", text: "Bearer eyJhbGciOiJFZERTQSJ9.eyJpc3MiOiJhIn0.c2lnbmF0dXJl" }],
      }),
  ],
  [
    10,
    "a project read another's event",
    ({ history }) => {
      const foreign = { ...sent("1", { metadata: '{"owner":"prj_b","mark":"1"}' }), offset: 2 };
      history.reads.push({ context, after: 1, through: 2, isAtHead: false, mustSee: 0, events: [foreign] });
    },
  ],
];

describe.each(broken)("promise %i", (promise, what, breakIt) => {
  test(`is seen broken when ${what}`, () => {
    const given = intact();
    breakIt(given);
    expect(violations(given.history, given.truth).map((violation) => violation.promise)).toContain(promise);
  });
});

test("no promise is without a history that breaks it", () => {
  expect(new Set(broken.map(([promise]) => promise))).toEqual(new Set(Array.from({ length: 11 }, (_, promise) => promise)));
});
