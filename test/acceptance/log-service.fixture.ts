/**
 * The context service as a process, on a real database and broker, and those who speak to it: people through the edge, code under a
 * lease, and the platform's own services. What promises of the log are held to.
 */
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import type { AppendReceipt, ReadEventsResponse } from "@iterate-platform/proto/iterate/context/v1/context";
import { EventInput, type Event } from "@iterate-platform/proto/iterate/type/v1/event";
import type { ExecutionClaims } from "@iterate-platform/service/caller";
import { newId, partitionOf, uuidv7 } from "@iterate-platform/service/ids";
import { migrate } from "@iterate-platform/service/migrations";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import type { Trust } from "@iterate-platform/service/trust";
import { useNats, useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll } from "vitest";
import { ContextProcess, Deployment, type Clients } from "../../services/context/test/context-process.js";

export interface EventFields {
  readonly type?: string;
  /** Bytes are sent as they are; any other value is written as JSON. */
  readonly payload?: unknown;
  readonly metadata?: unknown;
  readonly key?: string;
  readonly offset?: number | bigint;
  readonly ephemeral?: true;
}

/** One who appends. */
export interface Caller {
  readonly service: string;
  readonly principal?: string;
  readonly claims?: Partial<ExecutionClaims>;
}

export const platform: Caller = { service: "ingress" };
export const person: Caller = { service: "ingress", principal: "usr_acceptance" };
/** Project code of the context at `origin`. */
export const codeOf = (origin: string, claims: Partial<ExecutionClaims> = {}): Caller => ({
  service: "runner",
  claims: { context: origin, ...claims },
});

export type Context = { readonly owner: string; readonly path: string };
export type Append = (context: Context, events: readonly EventFields[], caller?: Caller, appendId?: string) => Promise<Receipt[]>;
export type Receipt = { readonly offset: number; readonly existing: boolean };
export type SeenEvent = {
  readonly offset: number;
  readonly type: string;
  readonly payload: unknown;
  readonly event: Event;
};

export class LogService {
  readonly owner = newId("prj");
  #deployment!: Deployment;
  #process!: ContextProcess;
  #pool!: Pool;
  #options!: { readonly deployment: Deployment; readonly databaseUrl: string; readonly natsUrl: string };
  #clients = new Map<string, Clients>();
  #contexts = 0;

  async start(databaseUrl: string, natsUrl: string): Promise<void> {
    const dir = fileURLToPath(new URL("../../services/context/migrations", import.meta.url));
    await migrate({ url: databaseUrl, dir });
    this.#deployment = await Deployment.make();
    this.#options = { deployment: this.#deployment, databaseUrl, natsUrl };
    this.#pool = createPool({ url: databaseUrl, applicationName: "acceptance", max: 2 });
    this.#process = await ContextProcess.start(this.#options);
  }

  async stop(): Promise<void> {
    await Promise.all([this.#process?.stop(), this.#pool?.end()]);
    this.#deployment?.remove();
  }

  /** Ends the process, by SIGKILL or in order, and starts another on the same database. */
  async restart(how: "killed" | "ended", between: () => Promise<unknown> = async () => undefined): Promise<void> {
    for (const { context, feed, secret } of this.#clients.values()) for (const client of [context, feed, secret]) client.close();
    this.#clients = new Map();
    await (how === "killed" ? this.#process.kill() : this.#process.terminate());
    await between();
    this.#process = await ContextProcess.start(this.#options);
  }

  /** Another process of the service on the same database and broker; whoever starts it stops it. */
  startAnother(): Promise<ContextProcess> {
    return ContextProcess.start(this.#options);
  }

  /** A process with settings of its own on the same database and broker; whoever starts it stops it. */
  startWith(env: Readonly<Record<string, string>>): Promise<ContextProcess> {
    return ContextProcess.start({ ...this.#options, env });
  }

  /** What another service of this deployment proves itself with. */
  trust(service: string): Trust {
    return this.#deployment.trust(service);
  }

  get pool(): Pool {
    return this.#pool;
  }

  /** A context nobody has touched. */
  newContext(name = "log"): Context {
    return { owner: this.owner, path: `/${name}/${(this.#contexts += 1)}` };
  }

  as({ service }: Caller): Clients["context"] {
    let clients = this.#clients.get(service);
    if (clients === undefined) this.#clients.set(service, (clients = this.#process.as(service)));
    return clients.context;
  }

  /** Commits of a context, as the feed tells them to runners. */
  async commits({ owner, path }: Context): Promise<{ firstOffset: number; lastOffset: number }[]> {
    this.as(codeOf("/"));
    const { feed } = this.#clients.get("runner")!;
    const { commits } = await feed.listCommits({ partition: partitionOf(owner, path), after: "", limit: 1_000 });
    return commits
      .filter(({ context }) => context!.path === path && context!.owner === owner)
      .map(({ firstOffset, lastOffset }) => ({ firstOffset: Number(firstOffset), lastOffset: Number(lastOffset) }));
  }

  async optionsOf({ principal, claims }: Caller, { owner, path }: Context) {
    if (claims === undefined) return principal === undefined ? {} : { principal };
    const full: ExecutionClaims = {
      owner,
      context: path,
      code: "config@acceptance",
      partition: 0,
      epoch: 1,
      cause: { chain: `2030-01-01T00:00:00.000Z with person ~${randomUUID()}`, depth: 0 },
      scope: [],
      exp: Math.floor(Date.now() / 1_000) + 60,
      ...claims,
    };
    return { execution: await this.#deployment.trust("runner").mintExecution(full) };
  }

  append: Append = async (context, events, caller = person, appendId = uuidv7()) => {
    const request = { context, appendId, events: events.map(inputOf) };
    const { receipts } = await this.as(caller).append(request, { ...(await this.optionsOf(caller, context)), deadlineMs: 20_000 });
    return receipts.map(receiptOf);
  };

  async read(context: Context, after = 0, { limit = 0, types = [] as string[], includeEphemeral = false } = {}): Promise<Page> {
    return pageOf(await this.as(person).readEvents({ context, afterOffset: BigInt(after), limit, types, includeEphemeral }));
  }

  wait(context: Context, types: string[], { after, payload, timeoutMs = 5_000 }: WaitFields = {}): Promise<SeenEvent> {
    return this.as(person)
      .waitForEvent(
        {
          context,
          types,
          payload: payload === undefined ? undefined : Buffer.from(JSON.stringify(payload)),
          afterOffset: after === undefined ? undefined : BigInt(after),
          timeoutMs,
        },
        { deadlineMs: timeoutMs + 5_000 },
      )
      .then(({ event }) => seen(event!));
  }

  async head(context: Context): Promise<{ offset: number; commitNo: number }> {
    const { headOffset, commitNo } = await this.as(person).describeContext({ context });
    return { offset: Number(headOffset), commitNo: Number(commitNo) };
  }

  /** What the process wrote about faults of its own. */
  get faults(): string[] {
    return this.#process.lines.filter((line) => line.includes('"level":"error"') || line.includes("fault of the platform"));
  }

  /** Streams of logs that the process holds open now. */
  openStreams(): Promise<number> {
    return this.#process.metric("iterate_context_streams_open");
  }

  /** Waiters that the process holds now. */
  waiters(): Promise<number> {
    return this.#process.metric("iterate_context_waiters");
  }
}

export interface WaitFields {
  readonly after?: number;
  readonly payload?: unknown;
  readonly timeoutMs?: number;
}

export interface Page {
  readonly events: readonly SeenEvent[];
  readonly offsets: readonly number[];
  readonly scannedThrough: number;
  readonly atHead: boolean;
  readonly ephemeralsIncluded: boolean;
}

/** A context service of its own for a test file. */
export function useLogService(): LogService {
  const database = useTestDatabase();
  const nats = useNats({ jetstream: true });
  const service = new LogService();
  beforeAll(() => service.start(database.url, nats.url), 60_000);
  afterAll(() => service.stop());
  return service;
}

export function inputOf({ type = "example.com/happened", payload, metadata, key, offset, ephemeral }: EventFields): EventInput {
  return EventInput.fromPartial({
    type,
    ...(payload === undefined ? {} : { payload: bytesOf(payload) }),
    ...(metadata === undefined ? {} : { metadata: bytesOf(metadata) }),
    idempotencyKey: key ?? "",
    ...(offset === undefined ? {} : { expectedOffset: BigInt(offset) }),
    ephemeral: ephemeral ?? false,
  });
}

function bytesOf(value: unknown): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value));
}

function receiptOf({ offset, existing }: AppendReceipt): Receipt {
  return { offset: Number(offset), existing };
}

function pageOf({ events, scannedThroughOffset, atHead, ephemeralsIncluded }: ReadEventsResponse): Page {
  const all = events.map(seen);
  return {
    events: all,
    offsets: all.map(({ offset }) => offset),
    scannedThrough: Number(scannedThroughOffset),
    atHead,
    ephemeralsIncluded,
  };
}

export function seen(event: Event): SeenEvent {
  const { offset, type, payload } = event;
  return {
    offset: Number(offset),
    type,
    payload: payload === undefined ? undefined : (JSON.parse(Buffer.from(payload).toString("utf8")) as unknown),
    event,
  };
}

export const offsetsOf = (receipts: readonly Receipt[]): number[] => receipts.map(({ offset }) => offset);
