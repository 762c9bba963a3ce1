/**
 * Whose a span is. Instrumentation of HTTP, gRPC and SQL knows no owner: a span that names none belongs to the nearest span above it
 * that does, and else, when the whole trace names one owner only, to that one. What stays without is the platform's own.
 */

export interface OwnedSpan {
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly owner: string;
}

/** The spans that `owner` may see. */
export function spansOfOwner<Span extends OwnedSpan>(spans: readonly Span[], owner: string): Span[] {
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  const named = new Set(spans.map((span) => span.owner).filter((name) => name !== ""));
  const sole = named.size === 1 ? [...named][0]! : "";
  const resolved = new Map<string, string>();
  const ownerOf = (span: Span): string => {
    // Senders may have made a ring of parents: each span is passed once.
    const passed: string[] = [];
    let above: Span | undefined = span;
    let found: string | undefined;
    while (above !== undefined && found === undefined && !passed.includes(above.spanId)) {
      found = above.owner !== "" ? above.owner : resolved.get(above.spanId);
      passed.push(above.spanId);
      above = byId.get(above.parentSpanId);
    }
    const result = found ?? sole;
    for (const id of passed) resolved.set(id, resolved.get(id) ?? result);
    return result;
  };
  return spans.filter((span) => (span.owner === "" ? ownerOf(span) : span.owner) === owner);
}
