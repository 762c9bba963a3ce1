/** What there is after a fault: every log as each process answers it, the rows beneath, and everything that was written meanwhile. */
import { ReadEventsRequest } from "@iterate-platform/proto/iterate/context/v1/context";
import { createPool } from "@iterate-platform/service/postgres";
import { eventually } from "@iterate-platform/testing";
import type { Clients } from "../../services/context/test/context-process.js";
import type { CommitSeen, Description, RunnerBooks, SeenEvent, Truth } from "./history.js";
import { nameOf, seen, type Place } from "./load.js";

export interface TruthSources {
  /** One client of each process that is to agree. */
  readonly clients: readonly Clients[];
  /** Databases of the log, past every proxy. */
  readonly databaseUrls: readonly string[];
  readonly writings: Truth["writings"];
  readonly secrets: Truth["secrets"];
  readonly runner: RunnerBooks | null;
}

export async function truthOf(places: readonly Place[], sources: TruthSources): Promise<Truth> {
  const logs: Map<string, SeenEvent[]>[] = [];
  const descriptions: Description[] = [];
  for (const clients of sources.clients) {
    const log = new Map<string, SeenEvent[]>();
    for (const place of places) {
      log.set(nameOf(place), await wholeLog(clients, place));
      descriptions.push(await describe(clients, place));
    }
    logs.push(log);
  }
  const commits = new Map<string, CommitSeen[]>();
  const storedSubscriptions = new Map<string, Record<string, number>>();
  const writings = [...sources.writings];
  const owners = [...new Set(places.map(({ owner }) => owner))];
  for (const url of sources.databaseUrls) {
    for (const row of await select<CommitRow>(url, commitRows, owners)) {
      const { context, commitNo, firstOffset, lastOffset } = row;
      commits.set(context, [...(commits.get(context) ?? []), { context, commitNo, firstOffset, lastOffset }]);
    }
    for (const { context, state } of await select<CoreRow>(url, coreRows, owners)) {
      const rows = JSON.parse(state) as Record<string, { configuredAtOffset: number }>;
      storedSubscriptions.set(
        context,
        Object.fromEntries(Object.entries(rows).map(([name, row]) => [name, row.configuredAtOffset])),
      );
    }
    const texts = await select<{ text: string }>(url, eventTexts, owners);
    writings.push({ where: "the log", text: texts.map(({ text }) => text).join("\n") });
  }
  return {
    logs,
    commits,
    descriptions,
    storedSubscriptions,
    writings,
    secrets: sources.secrets,
    runner: sources.runner,
  };
}

/** Nothing is broken any more, but a connection may still be one of before: it is asked until it answers. */
export async function wholeLog({ context }: Clients, place: Place): Promise<SeenEvent[]> {
  const events: SeenEvent[] = [];
  for (let after = 0n; ;) {
    const page = await settled(() =>
      context.readEvents(ReadEventsRequest.fromPartial({ context: place, afterOffset: after, limit: 1_000 })),
    );
    events.push(...page.events.map(seen));
    if (page.atHead) return events;
    after = page.scannedThroughOffset;
  }
}

async function describe({ context }: Clients, place: Place): Promise<Description> {
  const { headOffset, commitNo, subscriptions } = await settled(() => context.describeContext({ context: place }));
  return {
    context: nameOf(place),
    headOffset: Number(headOffset),
    commitNo: Number(commitNo),
    subscriptions: Object.fromEntries(subscriptions.map(({ name, configuredAtOffset }) => [name, Number(configuredAtOffset)])),
  };
}

function settled<T extends object>(ask: () => Promise<T>): Promise<T> {
  return eventually<T>(ask, { timeoutMs: 30_000, intervalMs: 50 });
}

interface CommitRow {
  readonly context: string;
  readonly commitNo: number;
  readonly firstOffset: number;
  readonly lastOffset: number;
}

interface CoreRow {
  readonly context: string;
  readonly state: string;
}

const commitRows = `
  select owner || ' ' || path as context, commit_no::int as "commitNo", first_offset::int as "firstOffset", last_offset::int as "lastOffset"
    from commit join context using (context_id) where owner = any($1) order by owner, path, commit_no`;

const coreRows = `
  select distinct on (context_id) owner || ' ' || path as context, state
    from core_state join context using (context_id)
   where owner = any($1) and concern = 'subscriptions' order by context_id, reducer_version desc`;

const eventTexts = `
  select concat_ws(' ', payload, metadata, source) as text from event join context using (context_id) where owner = any($1)`;

/** As an operator would, on a connection of its own. */
export async function select<Row>(url: string, text: string, ...values: readonly unknown[]): Promise<Row[]> {
  const pool = createPool({ url, applicationName: "truth", max: 1, statementTimeoutMs: 30_000 });
  try {
    return (await pool.query<Row>(text, values)).rows;
  } finally {
    await pool.end();
  }
}
