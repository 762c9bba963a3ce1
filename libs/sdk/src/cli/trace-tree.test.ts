import { expect, test } from "vitest";
import type { Trace, TraceSpan } from "../api/telemetry.js";
import { traceTree } from "./trace-tree.js";

const span = (spanId: string, parentSpanId: string | undefined, rest: Partial<TraceSpan> = {}): TraceSpan => ({
  spanId,
  ...(parentSpanId === undefined ? {} : { parentSpanId }),
  name: `span ${spanId}`,
  service: "context",
  kind: "internal",
  startUs: 1_767_225_600_000_000,
  durationUs: 1_500,
  error: false,
  statusMessage: "",
  attributes: {},
  links: [],
  ...rest,
});
const trace = (spans: readonly TraceSpan[], rest: Partial<Trace> = {}): string =>
  traceTree({ traceId: "t1", spans, linkedFrom: [], truncated: false, ...rest });

test("shows what is within what, what failed, what caused it and what it caused", () => {
  const text = trace(
    [
      span("a", undefined, { service: "ingress", kind: "server", durationUs: 120_000 }),
      span("b", "a", {
        startUs: 1_767_225_600_005_000,
        kind: "client",
        durationUs: 20_000,
        links: [{ traceId: "t0", spanId: "z" }],
      }),
      span("c", "b", { startUs: 1_767_225_600_006_000, error: true, statusMessage: "CONFLICT" }),
      span("d", "a", { startUs: 1_767_225_600_030_000 }),
    ],
    {
      linkedFrom: [
        { traceId: "t2", spanId: "x" },
        { traceId: "t2", spanId: "y" },
        { traceId: "t3", spanId: "x" },
      ],
    },
  );
  expect(text).toBe(`trace t1  2026-01-01T00:00:00.000Z  120 ms  4 spans, 2 services, 1 failed
span a  ingress server  +0.00 ms  120 ms
├─ span b  context client  +5.00 ms  20.0 ms
│  │ caused by trace t0 span z
│  └─ span c  context  +6.00 ms  1.50 ms  FAILED: CONFLICT
└─ span d  context  +30.0 ms  1.50 ms
caused trace t2
caused trace t3
`);
});

test("shows every span once, also those whose parent is not kept or leads back to them", () => {
  const lines = trace([span("a", "gone"), span("b", "c"), span("c", "b"), span("d", "d")])
    .split("\n")
    .filter((line) => line.includes("span "));
  expect(lines.map((line) => /span (\w)/.exec(line)?.[1])).toEqual(["a", "b", "c", "d"]);
});

test("says when nothing of it is kept, or not all is shown", () => {
  expect(trace([], { linkedFrom: [{ traceId: "t2", spanId: "x" }] })).toBe("trace t1  no span of it is kept\ncaused trace t2\n");
  expect(trace([span("a", undefined)], { truncated: true })).toContain("more spans are kept");
});

test("a name cannot move the cursor", () => {
  expect(trace([span("a", undefined, { name: "\u001b[2Jx\ny", service: "\u0007" })])).not.toMatch(/[\u0007\u001b]/);
});
