import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { codedError } from "iterate/lib";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { currentTraceparent, linkFrom, linksFrom, withNewRoot, withRemoteParent, withSpan } from "./tracing.js";

const exporter = new InMemorySpanExporter();
beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }));
});
afterEach(() => exporter.reset());
afterAll(() => {
  context.disable();
  trace.disable();
});

const finished = (name: string) => exporter.getFinishedSpans().find((span) => span.name === name)!;
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

describe("spans", () => {
  test("are children of the active one and end when their work settles", async () => {
    const go = Promise.withResolvers<number>();
    const outer = withSpan("outer", {}, () =>
      withSpan("inner", { kind: "client", attributes: { owner: "prj_1" } }, () => go.promise),
    );
    expect(exporter.getFinishedSpans()).toEqual([]);
    go.resolve(7);
    expect(await outer).toBe(7);
    expect(finished("inner").parentSpanContext?.spanId).toBe(finished("outer").spanContext().spanId);
    expect(finished("inner")).toMatchObject({ kind: SpanKind.CLIENT, attributes: { owner: "prj_1" } });
  });

  test("hold the failure of their work by its code and without secrets, thrown or rejected", async () => {
    expect(() =>
      withSpan("thrown", {}, () => {
        throw codedError("STALE_EPOCH", "epoch 3 < 4");
      }),
    ).toThrow("epoch");
    await expect(withSpan("rejected", {}, () => Promise.reject(new TypeError("postgres://u:hunter2@h is away")))).rejects.toThrow(
      "away",
    );
    expect(finished("thrown")).toMatchObject({
      status: { code: SpanStatusCode.ERROR, message: "epoch 3 < 4" },
      attributes: { "error.type": "STALE_EPOCH" },
    });
    expect(finished("rejected")).toMatchObject({
      status: { code: SpanStatusCode.ERROR },
      attributes: { "error.type": "TypeError" },
    });
    expect(finished("rejected").status.message).not.toContain("hunter2");
  });

  test("of a new root leave the trace they were called in and link to their cause", () => {
    withSpan("cause", {}, () =>
      withNewRoot("delivery", { links: linksFrom([currentTraceparent()]) }, () => withSpan("part", {}, () => {})),
    );
    const [cause, delivery, part] = ["cause", "delivery", "part"].map(finished);
    expect(delivery!.parentSpanContext).toBeUndefined();
    expect(delivery!.spanContext().traceId).not.toBe(cause!.spanContext().traceId);
    expect(delivery!.links.map((link) => link.context.spanId)).toEqual([cause!.spanContext().spanId]);
    expect(part!.parentSpanContext?.spanId).toBe(delivery!.spanContext().spanId);
  });

  test("go on from a traceparent of another process, and from nowhere for a malformed one", () => {
    withRemoteParent(traceparent, () => {
      expect(currentTraceparent()).toBe(traceparent);
      withSpan("continued", {}, () => {});
    });
    expect(finished("continued").parentSpanContext).toMatchObject({ spanId: "b7ad6b7169203331", isRemote: true });
    expect(withRemoteParent("nonsense", () => currentTraceparent())).toBe("");
  });
});

describe("a traceparent", () => {
  test.each([
    [traceparent, true],
    ["", false],
    ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", false],
    ["00-00000000000000000000000000000000-b7ad6b7169203331-01", false],
    ["00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false],
    ["ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false],
    ["00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01", false],
    [`${traceparent}\n`, false],
  ])("%j is a link: %s", (text, isLink) => {
    expect(linkFrom(text) !== undefined).toBe(isLink);
  });
});
