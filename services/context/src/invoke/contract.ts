/** What the builtins of this service are given with each call. */
import type { BuiltinRoot, CapabilityCall } from "@iterate-platform/service/capability";
import type { ContextLog } from "@iterate-platform/service/context-log";
import type { CallContext } from "@iterate-platform/service/grpc-server";
import type { Writer } from "../caller/contract.js";

/** One call of a builtin. What it writes, it writes as the caller. */
export interface BuiltinCall extends CapabilityCall {
  readonly writer: Writer;
  /** The log of the context it is called in, by the same doors and for the same caller as a direct call. */
  readonly log: ContextLog;
  /** The call of the service that this one is made by. */
  readonly incoming: CallContext;
}

export type ContextRoot = BuiltinRoot<BuiltinCall>;

/** Bounds of one call. */
export const invokeLimits = {
  /** Contexts one call may go on in, after the one it starts at. */
  crossings: 16,
} as const;
