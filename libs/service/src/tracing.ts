/**
 * Spans for what the instrumentations cannot see. Work that one call causes directly is its child; work that happens later or
 * elsewhere (a delivery, a run) begins a new trace with a link to its cause, so no trace grows for days. Without a registered
 * provider all of it costs next to nothing.
 */
import {
  context,
  isSpanContextValid,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Attributes,
  type Context,
  type Link,
  type Span,
} from "@opentelemetry/api";
import { isCodedError } from "iterate/lib";
import { redactText } from "./redact.js";

export interface SpanOptions {
  readonly kind?: "internal" | "server" | "client" | "producer" | "consumer";
  readonly links?: readonly Link[];
  /** `owner` belongs on every span that serves one. */
  readonly attributes?: Attributes;
}

const kinds = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
} as const;

const tracer = trace.getTracer("iterate");

/** Runs `act` in a child of the active span. The span ends when what `act` returns settles, and holds its failure. */
export function withSpan<T>(name: string, options: SpanOptions, act: (span: Span) => T): T {
  return run(name, options, context.active(), act);
}

/** Runs `act` in the first span of a new trace; say in `links` what caused it. */
export function withNewRoot<T>(name: string, options: SpanOptions, act: (span: Span) => T): T {
  return run(name, options, trace.deleteSpan(context.active()), act);
}

/** Runs `act` as if called from the span that `traceparent` names, which may live in another process. */
export function withRemoteParent<T>(traceparent: string, act: () => T): T {
  const parsed = parseTraceparent(traceparent);
  return parsed === undefined ? act() : context.with(trace.setSpanContext(ROOT_CONTEXT, { ...parsed, isRemote: true }), act);
}

/** The W3C traceparent of the active span; empty when there is none. */
export function currentTraceparent(): string {
  const span = trace.getSpanContext(context.active());
  if (span === undefined || !isSpanContextValid(span)) return "";
  return `00-${span.traceId}-${span.spanId}-0${(span.traceFlags & TraceFlags.SAMPLED).toString(16)}`;
}

/** A link to what `traceparent` names; undefined when it is empty or malformed. */
export function linkFrom(traceparent: string, attributes?: Attributes): Link | undefined {
  const parsed = parseTraceparent(traceparent);
  return parsed === undefined
    ? undefined
    : { context: { ...parsed, isRemote: true }, ...(attributes === undefined ? {} : { attributes }) };
}

/** Links to all well-formed ones of several traceparents. */
export function linksFrom(traceparents: Iterable<string>): Link[] {
  return [...traceparents].map((traceparent) => linkFrom(traceparent)).filter((link) => link !== undefined);
}

function run<T>(name: string, options: SpanOptions, parent: Context, act: (span: Span) => T): T {
  const span = tracer.startSpan(
    name,
    {
      kind: kinds[options.kind ?? "internal"],
      ...(options.links && { links: [...options.links] }),
      ...(options.attributes && { attributes: options.attributes }),
    },
    parent,
  );
  const end = (): void => span.end();
  const fail = (thrown: unknown): void => {
    recordFailure(span, thrown);
    span.end();
  };
  try {
    const result = context.with(trace.setSpan(parent, span), act, undefined, span);
    if (result instanceof Promise) {
      // The caller holds the promise; this only watches it.
      result.then(end, fail);
    } else end();
    return result;
  } catch (thrown) {
    fail(thrown);
    throw thrown;
  }
}

function recordFailure(span: Span, thrown: unknown): void {
  const message = redactText(thrown instanceof Error ? thrown.message : String(thrown)).slice(0, 1_000);
  span.setAttribute("error.type", isCodedError(thrown) ? thrown.code : thrown instanceof Error ? thrown.name : typeof thrown);
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}

const traceparentPattern = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

function parseTraceparent(text: string): { traceId: string; spanId: string; traceFlags: number } | undefined {
  const match = traceparentPattern.exec(text);
  if (match === null) return undefined;
  const parsed = { traceId: match[1]!, spanId: match[2]!, traceFlags: Number.parseInt(match[3]!, 16) & TraceFlags.SAMPLED };
  return isSpanContextValid(parsed) ? parsed : undefined;
}
