import { expect, test } from "vitest";
import { endingError, type Ending } from "./ending.js";
import { isolateLimits } from "./limits.js";

const crash = (over: Partial<Extract<Ending, { kind: "crash" }>>): Ending => ({
  kind: "crash",
  exitCode: null,
  signal: null,
  stderr: "",
  ...over,
});

test.each<[string, Ending, string]>([
  ["loops", { kind: "loop" }, "ISOLATE_CPU"],
  ["outgrows its memory", { kind: "memory" }, "ISOLATE_MEMORY"],
  ["is aborted by V8", crash({ signal: "SIGABRT" }), "ISOLATE_MEMORY"],
  ["says that it is out of memory", crash({ exitCode: 1, stderr: "Fatal: JavaScript heap out of memory" }), "ISOLATE_MEMORY"],
  [
    "collects garbage to no avail",
    crash({ exitCode: 1, stderr: "<--- Last few GCs --->\n\n*** Received signal #6: Aborted" }),
    "ISOLATE_MEMORY",
  ],
  ["hangs", { kind: "hang" }, "ISOLATE_LOST"],
  ["is retired", { kind: "retired" }, "ISOLATE_LOST"],
  ["is killed by someone else", crash({ signal: "SIGKILL" }), "ISOLATE_LOST"],
  ["exits", crash({ exitCode: 0 }), "ISOLATE_LOST"],
])("an invocation alone in a process that %s is told", (_what, ending, code) => {
  expect(endingError(ending, 1, isolateLimits)).toMatchObject({ code, data: { alone: true } });
});

test.each<Ending>([{ kind: "loop" }, { kind: "memory" }, crash({ signal: "SIGABRT" })])(
  "with a neighbour in flight nobody is charged for %o",
  (ending) => {
    const error = endingError(ending, 2, isolateLimits);
    expect(error).toMatchObject({
      code: "ISOLATE_LOST",
      retryable: true,
      data: { alone: false, reason: expect.stringMatching(/^ISOLATE_(CPU|MEMORY)$/) },
    });
  },
);
