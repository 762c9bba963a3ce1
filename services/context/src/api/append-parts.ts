/** What the unary and the streamed append share. */
import type { ExecutionClaims } from "@iterate-platform/service/caller";
import type { NewChain } from "../caller/writer.js";
import type { Appender } from "../log/contract.js";

export interface AppendParts {
  readonly appender: Appender;
  readonly newChain: NewChain;
  /** W3C traceparent of the running call, or `null`. */
  readonly traceparent: () => string | null;
  /** Claims of an execution token that comes with one append of a stream. Throws UNAUTHENTICATED. */
  readonly verifyExecution: (token: string) => ExecutionClaims | Promise<ExecutionClaims>;
  /** Hears of failures that are faults of the platform. */
  readonly onFault: (error: unknown) => void;
}
