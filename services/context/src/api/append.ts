/** The write side of ContextService: decode, say who writes, append, encode. */
import type { ContextServiceService } from "@iterate-platform/proto/iterate/context/v1/context";
import { raw, type HandlerOf, type MethodRule } from "@iterate-platform/service/grpc-server";
import type { RawHandlerOf } from "@iterate-platform/service/grpc-types";
import { writerOf } from "../caller/writer.js";
import { commandOf, responseOf } from "./append-input.js";
import type { AppendParts } from "./append-parts.js";
import { serveAppendStream } from "./append-stream.js";

type Methods = Pick<ContextServiceService, "append" | "appendStream">;

const writers: MethodRule = { services: ["ingress", "runner", "bundler"], execution: "allowed", person: "allowed" };

export const appendRules: Record<keyof Methods, MethodRule> = { append: writers, appendStream: writers };

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
