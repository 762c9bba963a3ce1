/**
 * Who calls, and the one rule table that says what they may call: a row per method, and no row means nobody.
 */
import { codedError } from "iterate/lib";

/** What code is running, stamped by the runner for one invocation; `context` derives an event's source from it alone. */
export interface ExecutionClaims {
  /** Project id or `global`. */
  readonly owner: string;
  /** Path of the context the code runs for. */
  readonly context: string;
  /** What runs, e.g. `config@<digest>` or `builtin:publication`. */
  readonly code: string;
  readonly subscription?: string;
  readonly run?: string;
  /** Partition 0–255 and the epoch of its lease under which the code runs. */
  readonly partition: number;
  readonly epoch: number;
  readonly cause: { readonly chain: string; readonly depth: number };
  /** The person or service account the code acts for. */
  readonly principal?: string;
  /** What the code may do beyond its own context. */
  readonly scope: readonly string[];
  /** Expiry in seconds since 1970. */
  readonly exp: number;
}

export interface Caller {
  /** The calling service, proven by its token. */
  readonly service: string;
  /** The person or service account it acts for. */
  readonly principal?: string;
  /** The code it works for. */
  readonly execution?: ExecutionClaims;
}

export type Presence = "required" | "allowed" | "refused";

/** Who may call one method. */
export interface MethodPolicy {
  /** Calling services; `"*"` admits every authenticated one. */
  readonly services: readonly string[];
  /** Whether the call is made for running code. */
  readonly execution: Presence;
  /** Whether the call is made for a principal; `allowed` when absent. */
  readonly person?: Presence;
}

/** Throws FORBIDDEN, naming what is missing, unless `policy` admits `caller`. A method without a policy admits nobody. */
export function authorize(method: string, policy: MethodPolicy | undefined, caller: Caller): void {
  if (policy === undefined) throw forbidden(method, "no rule admits anyone");
  if (!policy.services.includes(caller.service) && !policy.services.includes("*"))
    throw forbidden(method, `service ${JSON.stringify(caller.service)} may not call it`);
  check(method, "an execution token", policy.execution, caller.execution !== undefined);
  check(method, "a principal", policy.person ?? "allowed", caller.principal !== undefined);
}

function check(method: string, what: string, presence: Presence, isPresent: boolean): void {
  if (presence === "required" && !isPresent) throw forbidden(method, `it needs ${what}`);
  if (presence === "refused" && isPresent) throw forbidden(method, `it does not take ${what}`);
}

function forbidden(method: string, reason: string) {
  return codedError("FORBIDDEN", `${method}: ${reason}`, { method });
}
