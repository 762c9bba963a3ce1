/** The write side of ContextService: decode, say who writes, append, encode. */
import type { ContextServiceService } from "@iterate-platform/proto/iterate/context/v1/context";
import type { ExecutionClaims } from "@iterate-platform/service/caller";
import { raw, type HandlerOf, type MethodRule } from "@iterate-platform/service/grpc-server";
import type { RawHandlerOf } from "@iterate-platform/service/grpc-types";
import { writerOf, type NewChain } from "../caller/writer.js";
import type { Appender } from "../log/contract.js";
import { commandOf, responseOf } from "./append-input.js";
import { serveAppendStream } from "./append-stream.js";

type Methods = Pick<ContextServiceService, "append" | "appendStream">;

const writers: MethodRule = { services: ["ingress", "runner", "bundler"], execution: "allowed", person: "allowed" };

export const appendRules: Record<keyof Methods, MethodRule> = { append: writers, appendStream: writers };

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

export function appendHandlers(parts: AppendParts): {
  append: HandlerOf<Methods["append"]>;
  appendStream: RawHandlerOf<Methods["appendStream"]>;
} {
  return {
    append: (request, { caller }) =>
      parts.appender.append(commandOf(request, writerOf(caller, parts.newChain), parts.traceparent())).then(responseOf),
    appendStream: raw((call) => serveAppendStream(call, parts)),
  };
}
