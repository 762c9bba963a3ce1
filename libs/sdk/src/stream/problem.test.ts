import { expect, test } from "vitest";
import type { ProcessorProblem } from "./engine-ports.js";
import { problemSentence } from "./problem.js";

const problem = (kind: ProcessorProblem["kind"], offset: number | null = 12, type: string | null = "shop/ordered") =>
  problemSentence({ kind, slug: "triage", offset, type, error: new Error("boom") });

test.for<[ProcessorProblem["kind"], RegExp]>([
  [
    "reduce-failed",
    /^processor triage: reduce-failed: reduce threw for the event at offset 12 \(shop\/ordered\); the event is not in the state.*version/,
  ],
  [
    "malformed-payload",
    /^processor triage: malformed-payload: .* offset 12 \(shop\/ordered\) .*schema; the event is not in the state and was not processed.*version/,
  ],
  ["background-failed", /^processor triage: background-failed: .* offset 12 \(shop\/ordered\) failed; it is not tried again/],
])("%s names the event, what it means for the state and what to do", ([kind, sentence]) => {
  expect(problem(kind)).toMatch(sentence);
});

test("work of no single event is told without an offset", () => {
  expect(problem("background-failed", null, null)).toContain("for no single event failed");
});
