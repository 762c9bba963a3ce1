/** A deployment's `/api` in memory, behind a real WebSocket, for the tests of clients. Its logs are those of `iterate/stream/test-support`. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { newWebSocketRpcSession, RpcTarget, type RpcStub } from "capnweb";
import { WebSocketServer } from "ws";
import type {
  AdminApi,
  CallAnswer,
  CallArgs,
  Description,
  ExplainSubject,
  Explanation,
  ExportArgs,
  ExpressionForm,
  ImportApi,
  ImportArgs,
  ContextApi,
  CreateProjectArgs,
  CreateWebhookEndpointArgs,
  Credentials,
  EventPlace,
  EventsCallback,
  IterateApi,
  LogRecord,
  LogsApi,
  LogsPage,
  ProjectApi,
  ProjectInfo,
  ProjectTracesApi,
  ProjectsApi,
  ReadEventsArgs,
  ReadLogsArgs,
  SessionApi,
  SubscribeArgs,
  SubscriptionApi,
  Trace,
  TracesApi,
  WaitForEventArgs,
  WebhookEndpoint,
  WebhookEndpointsApi,
} from "../api/index.js";
import { printExpression, toExpression, type Json } from "../expression/index.js";
import { codedError, resolveContextPath } from "../lib/index.js";
import type { EventInput, StreamEvent } from "../stream/event.js";
import { memoryStream, type MemoryStream } from "../stream/test-support.js";

interface Project {
  readonly info: ProjectInfo;
  readonly records: LogRecord[];
  readonly logs: Map<string, MemoryStream>;
  readonly endpoints: WebhookEndpoint[];
}

interface StoredSchedule {
  readonly key: string;
  readonly scheduledAtOffset: number;
  readonly nextAt: string;
  readonly failedAtOffset: null;
}

export class MemoryDeployment {
  readonly secret = "the-operators-secret";
  readonly projects = new Map<string, Project>();
  /** Traces by id, each with the slug of the project that may see it. */
  readonly traces = new Map<string, { readonly slug: string; readonly trace: Trace }>();
  /** The archive that was imported last. */
  imported = "";
  /** What the next reads of logs fail with. */
  readonly logFailures: Error[] = [];
  /** Called after each append, so that subscriptions go on. */
  readonly listeners = new Set<() => void>();
  /** Told of each ephemeral event: the project's slug and the event. */
  readonly ephemeralListeners = new Set<(slug: string, event: StreamEvent) => void>();
  /** Subscriptions not yet disposed. */
  subscriptions = 0;
  /** Ends all subscriptions with the error. */
  readonly endings = new Set<(error: Error) => void>();
  readonly #schedules = new Map<string, Map<string, StoredSchedule>>();
  #server: Server | null = null;
  #sockets: WebSocketServer | null = null;
  #port = 0;

  get baseUrl(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get connections(): number {
    return this.#sockets?.clients.size ?? 0;
  }

  /** Listens, on the port it had before when it was stopped. */
  async start(): Promise<void> {
    const server = createServer((_request, response) => response.writeHead(404).end());
    const sockets = new WebSocketServer({ server, path: "/api" });
    sockets.on("connection", (socket) => newWebSocketRpcSession(socket as unknown as WebSocket, new Api(this)));
    await new Promise<void>((resolve) => server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (server.address() as AddressInfo).port;
    [this.#server, this.#sockets] = [server, sockets];
  }

  /** Cuts every connection as a crash would. */
  cut(): void {
    for (const socket of this.#sockets?.clients ?? []) socket.terminate();
  }

  /** Stops answering pings and anything else on open connections. */
  freeze(): void {
    for (const socket of this.#sockets?.clients ?? []) socket.pause();
  }

  async stop(): Promise<void> {
    this.cut();
    const server = this.#server;
    if (server !== null) await new Promise((resolve) => server.close(resolve));
    this.#server = null;
  }

  schedules(slug: string, path: string): Map<string, StoredSchedule> {
    const name = `${slug} ${path}`;
    let held = this.#schedules.get(name);
    if (held === undefined) this.#schedules.set(name, (held = new Map<string, StoredSchedule>()));
    return held;
  }

  log(slug: string, path: string): MemoryStream {
    const project = this.projects.get(slug);
    if (project === undefined) throw codedError("NOT_FOUND", `there is no project ${JSON.stringify(slug)}`);
    const log = project.logs.get(path) ?? memoryStream([], { path });
    project.logs.set(path, log);
    return log;
  }

  async append(slug: string, path: string, ...events: EventInput[]): ReturnType<ContextApi["append"]> {
    const committed = await this.log(slug, path).append(events);
    for (const listener of this.listeners) listener();
    for (const event of committed) if (event.ephemeral === true) for (const tell of this.ephemeralListeners) tell(slug, event);
    return committed;
  }
}

class Api extends RpcTarget implements IterateApi {
  readonly #deployment: MemoryDeployment;
  constructor(deployment: MemoryDeployment) {
    super();
    this.#deployment = deployment;
  }
  async authenticate({ secret }: Credentials): Promise<SessionApi> {
    if (secret !== this.#deployment.secret) throw codedError("INVALID_CREDENTIALS", "the secret is not the operator's");
    return new Session(this.#deployment);
  }
}

class Session extends RpcTarget implements SessionApi {
  readonly #projects: Projects;
  readonly #traces: Traces;
  constructor(deployment: MemoryDeployment) {
    super();
    this.#projects = new Projects(deployment);
    this.#traces = new Traces(deployment, "");
  }
  get traces(): TracesApi {
    return this.#traces;
  }
  get admin(): AdminApi {
    return new Admin();
  }
  async whoami() {
    return { kind: "admin" as const, principal: "admin" };
  }
  get projects(): ProjectsApi {
    return this.#projects;
  }
}

class Admin extends RpcTarget implements AdminApi {
  async declareLogRestored() {
    return { generations: [2, 3] };
  }
}

class Projects extends RpcTarget implements ProjectsApi {
  readonly #deployment: MemoryDeployment;
  constructor(deployment: MemoryDeployment) {
    super();
    this.#deployment = deployment;
  }
  async list({ limit = 2, after = "" } = {}) {
    const all = [...this.#deployment.projects.values()].map(({ info }) => info).filter(({ slug }) => slug > after);
    const projects = all.sort((a, b) => (a.slug < b.slug ? -1 : 1)).slice(0, limit);
    return { projects, next: projects.length < all.length ? (projects.at(-1)?.slug ?? null) : null };
  }
  async get(slug: string): Promise<ProjectApi> {
    this.#deployment.log(slug, "/");
    return new ProjectHandle(this.#deployment, slug);
  }
  async create({ slug, template }: CreateProjectArgs): Promise<ProjectInfo> {
    if (this.#deployment.projects.has(slug))
      throw codedError("PROJECT_NAME_TAKEN", `the slug ${JSON.stringify(slug)} is taken`, { slug });
    const info = {
      id: `prj_${slug}`,
      slug,
      createdAt: "2000-01-01T00:00:00.000Z",
      url: `http://${slug}.test/`,
      gitUrl: `${this.#deployment.baseUrl}/git/${slug}/config.git${template === undefined ? "" : `?${template}`}`,
    };
    this.#deployment.projects.set(slug, { info, records: [], logs: new Map(), endpoints: [] });
    return info;
  }
  async import({ slug = "imported", replace = false }: ImportArgs = {}): Promise<ImportApi> {
    if (this.#deployment.projects.has(slug) && !replace) throw codedError("ALREADY_EXISTS", `the project ${slug} exists`);
    return new Import(this.#deployment, async () => {
      this.#deployment.projects.delete(slug);
      return this.create({ slug });
    });
  }
}

class Import extends RpcTarget implements ImportApi {
  readonly #deployment: MemoryDeployment;
  readonly #create: () => Promise<ProjectInfo>;
  #pieces: Uint8Array[] = [];
  constructor(deployment: MemoryDeployment, create: () => Promise<ProjectInfo>) {
    super();
    this.#deployment = deployment;
    this.#create = create;
  }
  async write(piece: Uint8Array) {
    this.#pieces.push(piece.slice());
  }
  async finish() {
    const archive = Buffer.concat(this.#pieces).toString();
    if (!archive.startsWith('{"kind":"iterate-archive"')) throw codedError("INVALID_INPUT", "this is no archive of Iterate");
    this.#deployment.imported = archive;
    return { project: await this.#create(), contexts: 2, events: 1_234 };
  }
}

class Context extends RpcTarget implements ContextApi {
  readonly #deployment: MemoryDeployment;
  readonly #slug: string;
  readonly #path: string;
  constructor(deployment: MemoryDeployment, slug: string, path = "/") {
    super();
    this.#deployment = deployment;
    this.#slug = slug;
    this.#path = path;
  }
  async whoami() {
    return { projectId: `prj_${this.#slug}`, projectSlug: this.#slug, path: this.#path };
  }
  async cd(path: string): Promise<ContextApi> {
    return new Context(this.#deployment, this.#slug, resolveContextPath(this.#path, path));
  }
  append(...events: EventInput[]) {
    return this.#deployment.append(this.#slug, this.#path, ...events);
  }
  async invoke(expression: ExpressionForm, ...args: Json[]): Promise<unknown> {
    const [, root, step] = toExpression(expression) as [string, unknown, [string, ...Json[]]];
    if (root === "schedules") return this.#schedules(...step);
    return { path: this.#path, called: printExpression(toExpression(expression)), args };
  }
  /** Schedules as far as they are set, shown and cancelled; nothing is fired here. */
  #schedules(method: string, ...[first, options]: Json[]): unknown {
    const schedules = this.#deployment.schedules(this.#slug, this.#path);
    switch (method) {
      case "set": {
        const set = first as { readonly key: string };
        const scheduledAtOffset = schedules.size + 2;
        schedules.set(set.key, { ...set, scheduledAtOffset, nextAt: "2030-01-01T09:00:00.000Z", failedAtOffset: null });
        return { key: set.key, scheduledAtOffset };
      }
      case "cancel": {
        const held = schedules.get(first as string);
        const wanted = (options as { readonly ifScheduledAtOffset?: number } | undefined)?.ifScheduledAtOffset;
        const isMeant = held !== undefined && (wanted ?? held.scheduledAtOffset) === held.scheduledAtOffset;
        return { cancelled: isMeant && schedules.delete(first as string) };
      }
      default:
        return [...schedules.values()];
    }
  }
  async call({ expression, onItem }: CallArgs): Promise<CallAnswer> {
    const called = printExpression(toExpression(expression));
    if (called === "itx.nothing()") return {};
    if (!called.startsWith("itx.streamEvents")) return { value: await this.invoke(expression) };
    const given = onItem as typeof onItem & { dup(): typeof onItem };
    return { stream: new Items(given.dup(), [{ at: 1 }, { at: 2 }]) };
  }
  async explain(subject: ExplainSubject): Promise<Explanation> {
    if ("subscription" in subject && subject.subscription === "nobody")
      throw codedError("NOT_FOUND", "this context has no subscription nobody");
    const reason = { kind: "retrying", subject: 'subscription "counter"', sentence: "attempt 1 failed\u001b[31m: no" } as const;
    const done = { kind: "done", subject: 'subscription "other"', sentence: "it has been delivered through offset 7" } as const;
    const isDone = "schedule" in subject;
    return {
      done: isDone,
      reasons: isDone ? [done] : [{ ...reason, dueAt: "2030-01-01T09:00:00.000Z", owner: "runner-1" }, done],
      headOffset: 9,
      away: "run" in subject ? ["runner"] : [],
    };
  }
  async describe(expression?: ExpressionForm): Promise<Description> {
    const asked = expression === undefined ? "itx" : printExpression(toExpression(expression));
    if (asked === "itx.nothing") throw codedError("NO_ITX_EXPRESSION_MATCH", "nothing answers itx.nothing here");
    return {
      expression: asked,
      path: this.#path,
      state: "bound",
      summary: "Something.",
      instructions: "",
      types: "",
      methods: [],
      rules: [],
      entries: [],
      standsFor: null,
      mayCall: true,
      refusal: null,
      text: `${asked} at ${this.#path}: Something.\n\u001b[31mred\n`,
    };
  }
  readEvents(args?: ReadEventsArgs) {
    return this.#deployment.log(this.#slug, this.#path).readEvents(args);
  }
  async waitForEvent({ type, afterOffset = 0 }: WaitForEventArgs) {
    const found = this.#deployment
      .log(this.#slug, this.#path)
      .events.find((event) => event.offset > afterOffset && event.type === type);
    if (found === undefined) throw codedError("WAIT_TIMEOUT", "no such event came");
    return found;
  }
  async subscribe(target: EventsCallback | SubscribeArgs): Promise<SubscriptionApi> {
    const args = typeof target === "function" ? { onEvents: target } : target;
    const log = this.#deployment.log(this.#slug, this.#path);
    const isHere = (slug: string, { path }: StreamEvent): boolean => slug === this.#slug && path === this.#path;
    return new Subscription(this.#deployment, log, args, args.afterOffset ?? headOf(log), isHere);
  }
}

class Items extends RpcTarget implements SubscriptionApi {
  readonly #closed: Promise<void>;
  constructor(deliver: (item: unknown) => void | Promise<void>, items: readonly unknown[]) {
    super();
    this.#closed = (async () => {
      for (const item of items) await deliver(item);
    })();
  }
  closed() {
    return this.#closed;
  }
}

class ProjectHandle extends Context implements ProjectApi {
  readonly #webhooks: Webhooks;
  readonly #logs: Logs;
  readonly #traces: Traces;
  constructor(deployment: MemoryDeployment, slug: string) {
    super(deployment, slug);
    this.#webhooks = new Webhooks(deployment, slug);
    this.#logs = new Logs(deployment, slug);
    this.#traces = new Traces(deployment, slug);
  }
  get logs(): LogsApi {
    return this.#logs;
  }
  get traces(): ProjectTracesApi {
    return this.#traces;
  }
  get webhooks(): WebhookEndpointsApi {
    return this.#webhooks;
  }
  async export({ path, onPiece }: ExportArgs) {
    if (path === "/broken") throw codedError("UNAVAILABLE", "the log is away");
    const pieces = [`{"kind":"iterate-archive","version":1}\n`, `{"of":${JSON.stringify(path ?? "é")}}\n`];
    const bytes = Buffer.from(pieces.join(""));
    // Cut inside of a character.
    await onPiece({ data: new Uint8Array(bytes.subarray(0, bytes.length - 4)), contexts: 0, events: 1_234 });
    await onPiece({ data: new Uint8Array(bytes.subarray(bytes.length - 4)), contexts: 2, events: 1_234 });
    return { contexts: 2, events: 1_234 };
  }
}

class Webhooks extends RpcTarget implements WebhookEndpointsApi {
  readonly #endpoints: WebhookEndpoint[];
  constructor(deployment: MemoryDeployment, slug: string) {
    super();
    this.#endpoints = deployment.projects.get(slug)?.endpoints ?? [];
  }
  async create({ provider, name = "main", secret = "made-for-you-0000" }: CreateWebhookEndpointArgs) {
    if (this.#endpoints.some((endpoint) => endpoint.name === name))
      throw codedError("ALREADY_EXISTS", `the endpoint ${JSON.stringify(name)} exists`);
    const endpoint = {
      provider,
      name,
      url: `http://hooks.test/${name}`,
      contextPath: `/integrations/${provider}/${name}`,
      createdAt: "2000-01-01T00:00:00.000Z",
    };
    this.#endpoints.push(endpoint);
    return { ...endpoint, secret };
  }
  async list() {
    return this.#endpoints;
  }
}

/** Pages of two records. */
class Logs extends RpcTarget implements LogsApi {
  readonly #deployment: MemoryDeployment;
  readonly #slug: string;
  constructor(deployment: MemoryDeployment, slug: string) {
    super();
    this.#deployment = deployment;
    this.#slug = slug;
  }
  async read({ since = "", path = "/", pageToken = "0" }: ReadLogsArgs = {}): Promise<LogsPage> {
    const failure = this.#deployment.logFailures.shift();
    if (failure !== undefined) throw failure;
    const all = this.#deployment.projects.get(this.#slug)?.records ?? [];
    const from = Number(pageToken);
    const page = all.slice(from, from + 2);
    const records = page.filter(({ at, attributes }) => at >= since && String(attributes["context"]).startsWith(path));
    return { records, pageToken: String(from + page.length), atEnd: from + page.length === all.length };
  }
}

class Traces extends RpcTarget implements ProjectTracesApi {
  readonly #deployment: MemoryDeployment;
  readonly #slug: string;
  /** An empty slug sees all. */
  constructor(deployment: MemoryDeployment, slug: string) {
    super();
    this.#deployment = deployment;
    this.#slug = slug;
  }
  async get(traceId: string): Promise<Trace> {
    const found = this.#deployment.traces.get(traceId);
    if (found === undefined || (this.#slug !== "" && found.slug !== this.#slug))
      throw codedError("NOT_FOUND", `nothing is kept of the trace ${traceId}`);
    return found.trace;
  }
  async ofEvent({ path, offset }: EventPlace): Promise<Trace> {
    return this.get(`${path}@${offset}`);
  }
}

function headOf({ events }: MemoryStream): number {
  return events.at(-1)?.offset ?? 0;
}

class Subscription extends RpcTarget implements SubscriptionApi {
  readonly #closed: Promise<void>;
  readonly #dispose: () => void;
  constructor(
    deployment: MemoryDeployment,
    log: MemoryStream,
    { types, includeEphemeral, onEvents }: SubscribeArgs,
    after: number,
    isHere: (slug: string, event: StreamEvent) => boolean,
  ) {
    super();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const callback = (onEvents as RpcStub<EventsCallback>).dup();
    deployment.subscriptions += 1;
    let busy = false;
    let told = false;
    const go = (): void => {
      if (busy) return;
      busy = true;
      void log
        .readEvents({ afterOffset: after, limit: 2, ...(types === undefined ? {} : { types }) })
        .then(async (page) => {
          if (told && page.scannedThroughOffset === after) return true;
          await callback(page);
          told = true;
          after = page.scannedThroughOffset;
          return page.atHead && after === headOf(log);
        })
        .then((isAtRest) => {
          busy = false;
          if (!isAtRest) go();
        }, reject);
    };
    const tell = (slug: string, event: StreamEvent): void => {
      if (isHere(slug, event)) void callback({ events: [event], scannedThroughOffset: after, atHead: true });
    };
    if (includeEphemeral === true) deployment.ephemeralListeners.add(tell);
    deployment.listeners.add(go);
    deployment.endings.add(reject);
    this.#closed = promise.finally(() => {
      deployment.listeners.delete(go);
      deployment.ephemeralListeners.delete(tell);
      deployment.endings.delete(reject);
      deployment.subscriptions -= 1;
      callback[Symbol.dispose]();
    });
    this.#closed.catch(() => undefined);
    this.#dispose = resolve;
    go();
  }
  closed(): Promise<void> {
    return this.#closed;
  }
  [Symbol.dispose](): void {
    this.#dispose();
  }
}
