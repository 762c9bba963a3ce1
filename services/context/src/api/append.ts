/** The write side of ContextService: decode, say who writes, append, encode. */
import type { AppendRequest, AppendResponse, ContextServiceService } from "@iterate-platform/proto/iterate/context/v1/context";
import { raw, type HandlerOf, type MethodRule } from "@iterate-platform/service/grpc-server";
import type { RawHandlerOf } from "@iterate-platform/service/grpc-types";
import type { Writer } from "../caller/contract.js";
import { writerOf } from "../caller/writer.js";
import { commandOf, responseOf } from "./append-input.js";
import type { AppendParts } from "./append-parts.js";
import { serveAppendStream } from "./append-stream.js";

type Methods = Pick<ContextServiceService, "append" | "appendStream">;

const writers: MethodRule = { services: ["ingress", "runner", "bundler"], execution: "allowed", person: "allowed" };

export const appendRules: Record<keyof Methods, MethodRule> = { append: writers, appendStream: writers };

/** Appends of builtins: as those of a direct call, but that the rules of contexts have been asked already. */
export function builtinAppend(parts: AppendParts): HandlerOf<Methods["append"]> {
  return (request, { caller }) => append(request, { ...writerOf(caller, parts.newChain), isByRules: true }, parts);
}

async function append(request: AppendRequest, writer: Writer, parts: AppendParts): Promise<AppendResponse> {
  return responseOf(await parts.appender.append(commandOf(request, writer, parts.traceparent())));
}

export function appendHandlers(parts: AppendParts): {
  append: HandlerOf<Methods["append"]>;
  appendStream: RawHandlerOf<Methods["appendStream"]>;
} {
  return {
    append: (request, { caller }) => append(request, writerOf(caller, parts.newChain), parts),
    appendStream: raw((call) => serveAppendStream(call, parts)),
  };
}
