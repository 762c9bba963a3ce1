/**
 * The session protocol of `<base>/api`: Cap'n Web over a WebSocket. The socket's main object holds `authenticate` and nothing else;
 * what it answers holds the rest. Any other name is NOT_A_METHOD. Failures are `Error`s with own `code` and `data`. Values travel as
 * JSON with one limit of Cap'n Web: object keys that every JavaScript object has (`toString`, `constructor`, `__proto__`, …) and
 * `toJSON` are dropped by the receiver.
 */
import type { RpcTarget } from "capnweb";
import type { StreamEvent } from "../stream/event.js";
import type { ArchiveCounts, ExportArgs, ImportArgs } from "./archive.js";
import type { Expression, Json } from "../expression/expression.js";
import type { ContextCalls } from "./context.js";
import type { Description } from "./describe.js";
import type { ExplainSubject, Explanation } from "./explain.js";
import type { LogsApi, ProjectTracesApi, TracesApi } from "./telemetry.js";
import type { CreatedWebhookEndpoint, CreateWebhookEndpointArgs, WebhookEndpoint } from "./webhook.js";

/** The main object of an unauthenticated socket. */
export interface IterateApi extends RpcTarget {
  /** Throws INVALID_CREDENTIALS. A refused call leaves the socket as it was; the server may delay repeated failures. */
  authenticate(credentials: Credentials): Promise<SessionApi>;
}

/** The operator's secret of the deployment. Other credential kinds are refused with INVALID_CREDENTIALS. */
export interface Credentials {
  readonly type: "admin-secret";
  readonly secret: string;
}

export interface SessionApi extends RpcTarget {
  whoami(): Promise<SessionIdentity>;
  readonly projects: ProjectsApi;
  /** Traces of the whole deployment: for its operator. */
  readonly traces: TracesApi;
  /** What concerns the deployment as a whole: for its operator. */
  readonly admin: AdminApi;
}

export interface AdminApi extends RpcTarget {
  /**
   * Says that the databases of the log were restored from a backup: every context goes on 2^20 offsets above what its log holds, so that
   * no offset anyone saw is given again, and records that it was cut. Call it once, before anything is appended.
   */
  declareLogRestored(): Promise<LogRestored>;
}

export interface LogRestored {
  /** Generation of each database of the log from now on. */
  readonly generations: readonly number[];
}

export interface SessionIdentity {
  readonly kind: "admin";
  /** What `source.principal` says of events written through this session. */
  readonly principal: string;
}

export interface ProjectsApi extends RpcTarget {
  /** Projects by slug, at most `limit` (1–500, default 100) after the slug `after`. */
  list(page?: ListProjectsArgs): Promise<ProjectsPage>;
  /** A handle on the project's root context. Throws NOT_FOUND. */
  get(idOrSlug: string): Promise<ProjectApi>;
  /** Answers when the project exists; its template is committed and published afterwards. Throws PROJECT_NAME_TAKEN. */
  create(args: CreateProjectArgs): Promise<ProjectInfo>;
  /** Begins to make a project from an archive, under the id it had. Throws OVERLOADED. */
  import(args?: ImportArgs): Promise<ImportApi>;
}

export interface ListProjectsArgs {
  readonly limit?: number;
  readonly after?: string;
}

export interface ProjectsPage {
  readonly projects: readonly ProjectInfo[];
  /** Pass it as `after` for the next page; null on the last one. */
  readonly next: string | null;
}

export interface CreateProjectArgs {
  /** A DNS label that starts with a letter, at most 63 characters, without `--`. */
  readonly slug: string;
  /** What the config repo starts with; absent: an empty repo. */
  readonly template?: ProjectTemplate;
}

export const projectTemplates = ["minimal", "triage"] as const;
export type ProjectTemplate = (typeof projectTemplates)[number];

export interface ProjectInfo {
  /** `prj_…` */
  readonly id: string;
  readonly slug: string;
  /** ISO 8601. */
  readonly createdAt: string;
  /** Where the project's own pages answer. */
  readonly url: string;
  /** Remote of the config repo, without a credential. */
  readonly gitUrl: string;
}

/** An import under way. Dispose it, or lose the connection, and it leaves nothing. */
export interface ImportApi extends RpcTarget {
  /** Answers when the piece, at most 1 MiB, is taken. Throws what is wrong with the archive so far. */
  write(piece: Uint8Array): Promise<void>;
  /** The archive is complete. Answers when the project is there. */
  finish(): Promise<ImportedProject>;
}

export interface ImportedProject extends ArchiveCounts {
  readonly project: ProjectInfo;
}

/** A context as a session holds it. */
export interface ContextApi extends RpcTarget, ContextCalls {
  /** A handle on another context of the project, resolved against this one as a path. Throws INVALID_CONTEXT. */
  cd(path: string): Promise<ContextApi>;
  /**
   * What an expression answers here, `args` given to its end: `invoke("itx.kv.get", "k")`. One round trip for a whole dotted expression.
   * A stream is refused with INVALID_INPUT: `call` takes it. Throws NO_ITX_EXPRESSION_MATCH, NOT_A_METHOD, INVALID_INPUT,
   * RESULT_TOO_LARGE, and what the method throws.
   */
  invoke(expression: ExpressionForm, ...args: Json[]): Promise<unknown>;
  /** As `invoke`, of calls that may answer a stream too: its items are handed to `onItem`, one at a time. Dispose the stream to end it. */
  call(args: CallArgs): Promise<CallAnswer>;
  /** What an expression is and how it is used; without one, what the context answers. */
  describe(expression?: ExpressionForm): Promise<Description>;
  /** Why something here is, or is not, done. Throws NOT_FOUND when there is no such thing, INVALID_INPUT. */
  explain(subject: ExplainSubject): Promise<Explanation>;
  /** Calls back with events as they commit, in offset order, without gap or repetition. Dispose the answer to end it. */
  subscribe(target: EventsCallback | SubscribeArgs): Promise<SubscriptionApi>;
}

/** An expression as text, or parsed. */
export type ExpressionForm = string | Expression;

export interface CallArgs {
  readonly expression: ExpressionForm;
  /** Called with one item at a time; the next comes when it answered. When it throws the stream ends. */
  readonly onItem: (item: unknown) => void | Promise<void>;
}

/** Exactly one of the two; neither when the call answers nothing. */
export interface CallAnswer {
  readonly value?: unknown;
  /** Its `closed` resolves at the end of the stream, and rejects with the reason when it broke. */
  readonly stream?: SubscriptionApi;
}

/** A project is its root context, and what belongs to the project as a whole. */
export interface ProjectApi extends ContextApi {
  readonly webhooks: WebhookEndpointsApi;
  readonly logs: LogsApi;
  readonly traces: ProjectTracesApi;
  /** Everything its logs hold, or those of one context, piece by piece. Throws NOT_FOUND, UNAVAILABLE: export again. */
  export(args: ExportArgs): Promise<ArchiveCounts>;
}

/**
 * One call at a time: the next frame is sent when the last answered, and meanwhile the server keeps a place in the log, not the
 * events. The first frame comes at once, though it may be empty, and so tells where the subscription began. A callback that throws
 * ends the subscription.
 */
export type EventsCallback = (frame: EventsFrame) => void | Promise<void>;

export interface EventsFrame {
  /** May be empty when events were scanned that `types` leaves out, or when the head is reached. */
  readonly events: readonly StreamEvent[];
  /** Subscribe again with this as `afterOffset` to go on after a lost connection. */
  readonly scannedThroughOffset: number;
  readonly atHead: boolean;
}

export interface SubscribeArgs {
  /** Default: the head now. 0 starts at the first kept event. */
  readonly afterOffset?: number;
  /** Only events of these types; at most 100. */
  readonly types?: readonly string[];
  /** Also ephemeral events, as they happen, in offset order with the stored ones. */
  readonly includeEphemeral?: boolean;
  readonly onEvents: EventsCallback;
}

export interface SubscriptionApi extends RpcTarget {
  /** Resolves when the subscription was disposed; rejects with the coded reason when the server or the callback ended it. */
  closed(): Promise<void>;
}

export interface WebhookEndpointsApi extends RpcTarget {
  /** Throws ALREADY_EXISTS when the provider has an endpoint of this name. The secret is answered here and never again. */
  create(args: CreateWebhookEndpointArgs): Promise<CreatedWebhookEndpoint>;
  /** All endpoints of the project, without secrets. */
  list(): Promise<readonly WebhookEndpoint[]>;
}
