/** Why something in a context is, or is not, done. */

/** What is asked about: delivery of an event, by its offset; a subscription; a schedule, by its key; a run, by the offset that asks for it. */
export type ExplainSubject =
  { readonly event: number } | { readonly subscription: string } | { readonly schedule: string } | { readonly run: number };

/** How one thing stands; `unknown` when whoever knows did not answer. */
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

export interface Reason {
  readonly kind: ReasonKind;
  /** What the reason is about, `subscription "counter"`. */
  readonly subject: string;
  /** One sentence for people. */
  readonly sentence: string;
  /** Offset through which a subscription has been delivered. */
  readonly cursor?: number;
  /** Failed attempts since the last success. */
  readonly attempts?: number;
  /** ISO 8601. */
  readonly dueAt?: string;
  readonly error?: { readonly code: string; readonly message: string };
  /** Pod that works on it. */
  readonly owner?: string;
}

export interface Explanation {
  /** True when nothing is left to do, as far as is known. */
  readonly done: boolean;
  readonly reasons: readonly Reason[];
  readonly headOffset: number;
  /** Services that did not say what they know. */
  readonly away: readonly string[];
}
