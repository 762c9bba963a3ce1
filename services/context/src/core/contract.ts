/**
 * The core state of a context: what the platform itself must know to route, deliver and publish. It is a pure fold over the
 * control events, split in concerns that are stored, and rewritten, apart.
 */
import type { FetchRoutes, IngressState } from "../routes/contract.js";
import type { RulesState } from "../rules/contract.js";
import type { ScheduleWhen } from "../schedules/contract.js";

export interface CoreState {
  readonly identity: IdentityState | null;
  readonly pause: PauseState | null;
  /** Rows by name, in the order of their names. */
  readonly subscriptions: Readonly<Record<string, SubscriptionRow>>;
  readonly rules: RulesState;
  /** The rule `itx.config`, which the table of rules shows and does not store. */
  readonly config: ConfigState | null;
  /** Kept by the root of a project alone. */
  readonly project: ProjectState | null;
  readonly secret: SecretState | null;
  readonly retention: RetentionState | null;
  /** Holds for the whole project; kept by its root alone. */
  readonly appendPolicy: AppendPolicyState | null;
  /** Rows by key, in the order of their keys. */
  readonly schedules: Readonly<Record<string, ScheduleRow>>;
  readonly runs: RunsState;
  /** Kept by the root of a project alone; in the order of their names. */
  readonly fetchRoutes: FetchRoutes;
  /** Kept by the root of a project alone. */
  readonly ingress: IngressState | null;
}

export type Concern = keyof CoreState;

/** Set by the birth of the context. */
export interface IdentityState {
  readonly owner: string;
  readonly path: string;
  readonly createdAtOffset: number;
}

/** Set while the context takes exempt types alone. */
export interface PauseState {
  readonly reason: string | null;
  readonly pausedAtOffset: number;
}

export interface SubscriptionRow {
  readonly name: string;
  /** Parsed expression, `["itx", …]`. */
  readonly target: readonly unknown[];
  /** Types delivered; empty means every event. */
  readonly consumes: readonly string[];
  /** Delivery starts after this offset. */
  readonly afterOffset: number;
  /** Offset of the event that made the row; a row configured anew is another row. */
  readonly configuredAtOffset: number;
  /** Offset of the fact that halted delivery; `null` while it runs. */
  readonly haltedAtOffset: number | null;
  /** Offset of the newest fact that resumed it; `null` when there is none. */
  readonly resumedAtOffset: number | null;
  /** Where that fact asked to continue; `null` when it named no place. */
  readonly resumedAfterOffset: number | null;
  /** Events below it went while delivery was halted before them; `null` when none was missed. */
  readonly missedBelow: number | null;
}

/** The build that `itx.config` stands for. */
export interface ConfigState {
  readonly digest: string;
  /** Path of the repository. */
  readonly repo: string;
  readonly commitOid: string;
  readonly generation: number;
  readonly modules: readonly ConfigModule[];
  readonly mainModule: string | null;
  readonly configuredAtOffset: number;
}

export interface ConfigModule {
  readonly file: string;
  readonly module: string;
  readonly identity: string;
  readonly classes: readonly string[];
}

/** What the project is called. */
export interface ProjectState {
  readonly slug: string;
}

/** The newest sealed value of a secret. */
export interface SecretState {
  readonly path: string;
  readonly urls: readonly string[];
  readonly sealed: { readonly keyId: string; readonly wrappedKey: string; readonly box: string };
  readonly setAtOffset: number;
}

/** How much of its log the context keeps. Set by the first wish to give anything up. */
export interface RetentionState {
  /** `null` keeps everything that is there. */
  readonly keepFrom: { readonly offset: number } | { readonly maxAgeMs: number } | null;
  /** Offset of the event that set `keepFrom`; 0 while nobody has. */
  readonly configuredAtOffset: number;
  /** Events below it cannot be read; 1 while nothing was given up. */
  readonly firstOffset: number;
}

/** Who may append what in a project. */
export interface AppendPolicyState {
  readonly rules: readonly AppendRule[];
  readonly configuredAtOffset: number;
}

/** Patterns are exact names, or end in `*` and stand for everything that begins so. */
export interface AppendRule {
  readonly types: readonly string[];
  readonly paths: readonly string[];
  readonly origins: readonly string[];
}

/** A schedule in force. The events it appends are in the event that set it. */
export interface ScheduleRow {
  readonly key: string;
  /** Offset of the event that set it; a key set anew is another schedule. */
  readonly scheduledAtOffset: number;
  readonly when: ScheduleWhen;
  /** Bytes of its events, as they count against what a context may hold. */
  readonly bytes: number;
  /** The first occurrence is counted from the time of the event at this offset. */
  readonly since: number;
  /** The next occurrence, milliseconds since 1970; `null` while it is the first and `since` decides. */
  readonly nextAtMs: number | null;
  /** Offset of the fact that a firing was refused; `null` while it is in force. */
  readonly failedAtOffset: number | null;
}

/** Runs that are not settled. What they run is in the events that ask for them. */
export interface RunsState {
  /** The newest incarnation that was recorded: epoch of the partition's owner; 0 before any. */
  readonly incarnation: number;
  /** By the offset of the request, in the order of offsets. */
  readonly open: Readonly<Record<string, RunRow>>;
}

export interface RunRow {
  /** Offset of the event that asks for it, and its name. */
  readonly requestOffset: number;
  readonly deadlineMs: number;
  readonly ancestor: { readonly requestOffset: number; readonly kind: "restart" | "fork" } | null;
  readonly limitKey: string | null;
}

/** A control event as reducers see it. */
export interface ControlEvent {
  readonly offset: number;
  readonly type: string;
  readonly payload: unknown;
}
