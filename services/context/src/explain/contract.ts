/** What an explanation is made of. Offsets and times are numbers; times are milliseconds since 1970. */

/** What is asked about. */
export type Subject =
  | { readonly kind: "event"; readonly offset: number }
  | { readonly kind: "subscription"; readonly name: string }
  | { readonly kind: "schedule"; readonly key: string }
  | { readonly kind: "run"; readonly offset: number };

export type ReasonKind =
  | "done"
  | "nobody"
  | "waiting"
  | "retrying"
  | "halted"
  | "dangling"
  | "not-taken-up"
  | "no-owner"
  | "paused"
  | "not-due"
  | "unknown";

/** Why one thing is, or is not, done. */
export interface Reason {
  readonly kind: ReasonKind;
  /** What it is about, `subscription "counter"`. */
  readonly subject: string;
  /** One sentence for people. */
  readonly sentence: string;
  readonly cursor?: number;
  readonly attempts?: number;
  readonly dueAtMs?: number;
  readonly error?: { readonly code: string; readonly message: string };
  readonly owner?: string;
  readonly epoch?: number;
}

export interface Explanation {
  readonly isDone: boolean;
  readonly reasons: readonly Reason[];
  readonly headOffset: number;
  /** Services that did not say what they know. */
  readonly away: readonly string[];
}

/** Where a subscription stands, as the runner knows. */
export interface DeliveryFacts {
  readonly name: string;
  readonly status: "active" | "retrying" | "halted" | "dangling";
  readonly configuredAtOffset: number;
  readonly cursor: number;
  readonly attempts: number;
  /** `null` when nothing waits for a time. */
  readonly dueAtMs: number | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly isSuspect: boolean;
}

export interface RunFacts {
  readonly requestOffset: number;
  readonly epoch: number;
  readonly dueAtMs: number;
}

/** What the runner knows of a context. */
export interface RunnerHalf {
  /** `null` when no pod holds the partition. */
  readonly lease: { readonly pod: string; readonly epoch: number } | null;
  readonly deliveries: readonly DeliveryFacts[];
  readonly runs: readonly RunFacts[];
}

/** Asks the runner. */
export interface RunnerKnowledge {
  /** `null` when it does not answer in time. Never fails. */
  ask(
    context: { readonly owner: string; readonly path: string },
    names: readonly string[],
    runOffsets: readonly number[],
    signal: AbortSignal,
  ): Promise<RunnerHalf | null>;
}
