/** A trace as a tree of text: what happened within what, how long it took, what caused it and what it caused. */
import type { SpanReference, Trace, TraceSpan } from "../api/telemetry.js";
import { printable } from "./output.js";

export function traceTree({ traceId, spans, linkedFrom, truncated }: Trace): string {
  const lines = [`trace ${traceId}  ${summary(spans)}`];
  const known = new Set(spans.map(({ spanId }) => spanId));
  const children = Map.groupBy(spans, ({ parentSpanId }) =>
    parentSpanId !== undefined && known.has(parentSpanId) ? parentSpanId : "",
  );
  const origin = spans[0]?.startUs ?? 0;
  const printed = new Set<string>();

  const add = (span: TraceSpan, lead: string, branch: string, below: string): void => {
    // Senders may have made a ring of parents.
    if (printed.has(span.spanId)) return;
    printed.add(span.spanId);
    const within = children.get(span.spanId) ?? [];
    lines.push(`${lead}${branch}${spanLine(span, origin)}`);
    const next = lead + below;
    for (const link of span.links) lines.push(`${next}${within.length > 0 ? "│ " : "  "}caused by ${reference(link)}`);
    within.forEach((child, index) => {
      const isLast = index === within.length - 1;
      add(child, next, isLast ? "└─ " : "├─ ", isLast ? "   " : "│  ");
    });
  };
  for (const root of children.get("") ?? []) add(root, "", "", "");
  // What only a ring of parents leads to has no root above it.
  for (const span of spans) add(span, "", "", "");

  if (truncated) lines.push("more spans are kept than are shown");
  const caused = [...Map.groupBy(linkedFrom, (link) => link.traceId).keys()];
  for (const id of caused) lines.push(`caused trace ${printable(id)}`);
  return `${lines.join("\n")}\n`;
}

function summary(spans: readonly TraceSpan[]): string {
  if (spans.length === 0) return "no span of it is kept";
  const start = Math.min(...spans.map(({ startUs }) => startUs));
  const end = Math.max(...spans.map(({ startUs, durationUs }) => startUs + durationUs));
  const failed = spans.filter(({ error }) => error).length;
  const counts = [count(spans.length, "span"), count(new Set(spans.map(({ service }) => service)).size, "service")];
  if (failed > 0) counts.push(`${failed} failed`);
  return `${new Date(Math.floor(start / 1_000)).toISOString()}  ${milliseconds(end - start)}  ${counts.join(", ")}`;
}

function spanLine({ name, service, kind, startUs, durationUs, error, statusMessage }: TraceSpan, originUs: number): string {
  const shownKind = kind === "internal" ? "" : ` ${kind}`;
  const failure = error ? `  FAILED${statusMessage === "" ? "" : `: ${statusMessage}`}` : "";
  return printable(`${name}  ${service}${shownKind}  +${milliseconds(startUs - originUs)}  ${milliseconds(durationUs)}${failure}`);
}

function reference({ traceId, spanId }: SpanReference): string {
  return printable(`trace ${traceId} span ${spanId}`);
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

function milliseconds(us: number): string {
  return `${(us / 1_000).toFixed(us < 10_000 ? 2 : us < 100_000 ? 1 : 0)} ms`;
}
