/**
 * Traces that come from outside. A stranger's `traceparent` must not become the parent of our spans: it would let anyone write into
 * any trace and decide what is sampled. It is taken off the request before instrumentation looks and linked to the span that is ours.
 */
import { ServerInterceptingCall, type ServerInterceptor } from "@grpc/grpc-js";
import { trace } from "@opentelemetry/api";
import type { IncomingMessage, Server } from "node:http";
import { linkFrom } from "./tracing.js";

const header = "traceparent";
const kept = "x-foreign-traceparent";

/** Hides `traceparent` of every request of the server from the instrumentation. Before the server listens. */
export function adoptForeignTrace(server: Server): void {
  const emit = server.emit.bind(server) as (event: string, ...args: unknown[]) => boolean;
  server.emit = (event: string, ...args: unknown[]): boolean => {
    if (event === "request" || event === "upgrade") {
      const { headers } = args[0] as IncomingMessage;
      const given = headers[header];
      delete headers[header];
      delete headers["tracestate"];
      delete headers[kept];
      if (given !== undefined) headers[kept] = given;
    }
    return emit(event, ...args);
  };
}

/** Links what `adoptForeignTrace` kept to the active span. */
export function linkForeignTrace(request: IncomingMessage): void {
  linkToActiveSpan(request.headers[kept]);
}

/** The same for a gRPC server: an interceptor, and the link it asks for at the start of a call. */
export const foreignTraceInterceptor: ServerInterceptor = (_method, call) =>
  new ServerInterceptingCall(call, {
    start: (next) =>
      next({
        onReceiveMetadata: (metadata, passOn) => {
          const given = metadata.get(header)[0];
          for (const name of [header, "tracestate", kept]) metadata.remove(name);
          if (given !== undefined) metadata.set(kept, given);
          passOn(metadata);
        },
      }),
  });

/** Links a traceparent that the interceptor kept to the active span. */
export function linkForeignCall(metadata: { get(name: string): unknown[] }): void {
  linkToActiveSpan(metadata.get(kept)[0]);
}

function linkToActiveSpan(traceparent: unknown): void {
  const link = typeof traceparent === "string" ? linkFrom(traceparent) : undefined;
  if (link !== undefined) trace.getActiveSpan()?.addLink(link);
}
