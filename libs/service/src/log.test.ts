import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { context, trace } from "@opentelemetry/api";
import { codedError } from "iterate/lib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLog, maxLineLength, type LogLevel } from "./log.js";

function captured(level: LogLevel = "info") {
  const lines: string[] = [];
  const log = createLog("context", { level, write: (line) => lines.push(line), nowMs: () => 0 });
  return { log, lines, last: () => JSON.parse(lines.at(-1)!) as Record<string, unknown> };
}

beforeAll(() => void context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()));
afterAll(() => context.disable());

describe("logs", () => {
  test("are one JSON object per line with time, level, service and the fields of every parent", () => {
    const { log, lines } = captured();
    log.child({ owner: "prj_1" }).child({ path: "/a" }).info("appended\nto it", { offset: 12n });
    expect(lines).toEqual([
      '{"time":"1970-01-01T00:00:00.000Z","level":"info","service":"context","message":"appended\\nto it","owner":"prj_1","path":"/a","offset":"12"}\n',
    ]);
  });

  test("carry the ids of the active span", () => {
    const { log, last } = captured();
    const span = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331", traceFlags: 1 };
    context.with(trace.setSpanContext(context.active(), span), () => log.info("inside"));
    expect(last()).toMatchObject({ trace_id: span.traceId, span_id: span.spanId });
    log.info("outside");
    expect(last()).not.toHaveProperty("trace_id");
  });

  test("drop what is below their level", () => {
    const { log, lines } = captured("warn");
    log.debug("a");
    log.info("b");
    log.warn("c");
    log.error("d");
    expect(lines.map((line) => (JSON.parse(line) as { message: string }).message)).toEqual(["c", "d"]);
  });

  test("keep code, data, stack and causes of an error", () => {
    const { log, last } = captured();
    log.error("append failed", { error: new Error("outer", { cause: codedError("STALE_EPOCH", "epoch 3 < 4", { epoch: 3 }) }) });
    expect(last()["error"]).toMatchObject({
      name: "Error",
      message: "outer",
      stack: expect.stringContaining("log.test.ts"),
      cause: { name: "CodedError", code: "STALE_EPOCH", message: "epoch 3 < 4", data: { epoch: 3 } },
    });
  });

  test("keep their own members when a field has the same name", () => {
    const { log, last } = captured();
    log.info("real", { level: "fake", service: "fake", message: "fake" });
    expect(last()).toMatchObject({ level: "info", service: "context", message: "real" });
  });

  test("never hold a secret, named or shaped, wherever it stands", () => {
    const { log, lines } = captured();
    const jwt = "eyJhbGciOiJFZERTQSJ9.eyJpc3MiOiJydW5uZXIifQ.c2lnbmF0dXJl";
    const planted: unknown[] = [
      { password: "hunter2" },
      { nested: { apiKey: "hunter2", list: [{ webhookSecret: "hunter2" }] } },
      {
        headers: new Map([
          ["authorization", "hunter2"],
          ["Set-Cookie", "hunter2"],
        ]),
      },
      { note: "sent Bearer hunter2hunter2 upstream" },
      { url: "postgres://iterate_context:hunter2@127.0.0.1:7432/db" },
      { error: new Error("connect postgres://u:hunter2@h failed", { cause: { token: "hunter2" } }) },
      { text: "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----" },
      { text: "whsec_hunter2hunter2" },
    ];
    for (const fields of planted) log.error("failed", fields as Record<string, unknown>);
    log.error(`refused ${jwt}`, { text: jwt });
    log.error("postgres://u:hunter2@h is away");
    expect(lines.join("")).not.toMatch(/hunter2|c2lnbmF0dXJl/);
    expect(lines).toHaveLength(planted.length + 2);
  });

  test("keep fields whose name only mentions a secret word", () => {
    const { log, last } = captured();
    log.info("model answered", { promptTokens: 12, tokenCount: 3, maxTokens: 9, secretPath: "/github" });
    expect(last()).toMatchObject({ promptTokens: 12, tokenCount: 3, maxTokens: 9, secretPath: "/github" });
  });

  test("never throw and never grow beyond the line limit", () => {
    const { log, lines } = captured();
    const loop: Record<string, unknown> = {
      hostile: {
        get boom() {
          throw new Error("no");
        },
      },
    };
    loop["self"] = loop;
    log.info("odd", {
      loop,
      fn: () => {},
      sym: Symbol("s"),
      nan: NaN,
      bytes: new Uint8Array(9),
      none: undefined,
      date: new Date(NaN),
    });
    log.info("x".repeat(100_000), { many: Array.from({ length: 100_000 }, (_, i) => "y".repeat(i % 5000)) });
    expect(lines).toHaveLength(2);
    for (const line of lines) {
      expect(line.length).toBeLessThanOrEqual(maxLineLength);
      expect(() => JSON.parse(line) as unknown).not.toThrow();
    }
  });
});
