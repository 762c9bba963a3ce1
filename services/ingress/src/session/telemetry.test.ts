/** Logs and traces over a session's handles; the service that keeps them has its own suite. */
import { codedError } from "iterate/lib";
import { beforeEach, describe, expect, test } from "vitest";
import { publicTelemetryService } from "../api/public-telemetry.js";
import type { CallContext } from "@iterate-platform/service/grpc-server";
import { ProjectHandle } from "./project-handle.js";
import { SessionScope, type SessionParts } from "./session-scope.js";
import { AllTracesHandle } from "./telemetry-handles.js";
import { TelemetryReader, type TelemetryClient } from "./telemetry-reader.js";

const traceId = "ab".repeat(16);
const asked: unknown[] = [];
const client = {
  getTrace: async (request: object, options: object) => {
    asked.push({ ...request, ...options });
    return {
      spans: [
        {
          traceId,
          spanId: "01".repeat(8),
          parentSpanId: "",
          name: "deliver",
          service: "runner",
          kind: "consumer",
          startUs: 1_800_000_000_000_001n,
          durationUs: 5n,
          error: true,
          statusMessage: "CONFLICT",
          attributes: '{"owner":"prj_a"}',
          links: [],
        },
      ],
      linkedFrom: [{ traceId: "cd".repeat(16), spanId: "02".repeat(8) }],
      truncated: false,
    };
  },
  listLogs: async (request: object, options: object) => {
    asked.push({ ...request, ...options });
    const record = { atUs: 1_800_000_000_123_456n, severity: "warn", body: "b", service: "runner", attributes: '{"n":1}' };
    return {
      records: [
        { ...record, traceId: "", spanId: "" },
        { ...record, traceId, spanId: "01".repeat(8) },
      ],
      nextPageToken: "next",
      atEnd: true,
    };
  },
} as unknown as TelemetryClient;

const events = [
  { offset: 12n, traceparent: `00-${traceId}-${"03".repeat(8)}-01` },
  { offset: 13n, traceparent: "" },
];
const context = {
  readEvents: async ({ afterOffset }: { afterOffset: bigint }) => ({
    events: events.filter(({ offset }) => offset > afterOffset).slice(0, 1),
  }),
} as unknown as ConstructorParameters<typeof TelemetryReader>[1];

const scope = (telemetry: TelemetryClient | null): SessionScope =>
  new SessionScope({ telemetry: new TelemetryReader(telemetry, context) } as SessionParts, "admin", new AbortController().signal);
const project = (telemetry: TelemetryClient | null = client): ProjectHandle =>
  new ProjectHandle(scope(telemetry), { id: "prj_a", slug: "a", createdAt: new Date(0) });

beforeEach(() => void asked.splice(0));

describe("logs", () => {
  test("are asked for by the project's own id, and answered as JSON", async () => {
    expect(await project().logs.read({ since: "2027-01-15T08:00:00.000Z", path: "/orders", limit: 7 })).toEqual({
      pageToken: "next",
      atEnd: true,
      records: [
        { at: "2027-01-15T08:00:00.123Z", severity: "warn", body: "b", service: "runner", attributes: { n: 1 } },
        {
          at: "2027-01-15T08:00:00.123Z",
          severity: "warn",
          body: "b",
          service: "runner",
          span: { traceId, spanId: "01".repeat(8) },
          attributes: { n: 1 },
        },
      ],
    });
    await project().logs.read();
    expect(asked).toEqual([
      { owner: "prj_a", path: "/orders", sinceUs: 1_800_000_000_000_000n, pageToken: "", pageSize: 7, principal: "admin" },
      { owner: "prj_a", path: "", sinceUs: 0n, pageToken: "", pageSize: 0, principal: "admin" },
    ]);
  });

  test.for([{ since: "10m" }, { limit: 0 }, { limit: 1_001 }, { owner: "prj_b" }])(
    "%o is INVALID_INPUT before anything is asked",
    async (args) => {
      expect(() => project().logs.read(args as object)).toThrow(expect.objectContaining({ code: "INVALID_INPUT" }) as Error);
      expect(asked).toEqual([]);
    },
  );
});

describe("traces", () => {
  test("of a project are limited to it; those of the session are not", async () => {
    expect(await project().traces.get(traceId)).toMatchObject({
      traceId,
      spans: [{ spanId: "01".repeat(8), startUs: 1_800_000_000_000_001, durationUs: 5, attributes: { owner: "prj_a" } }],
      linkedFrom: [{ traceId: "cd".repeat(16), spanId: "02".repeat(8) }],
      truncated: false,
    });
    await new AllTracesHandle(scope(client)).get(traceId);
    expect(asked).toEqual([
      { owner: "prj_a", traceId, principal: "admin" },
      { owner: "", traceId, principal: "admin" },
    ]);
  });

  test("are found by an event that was committed in them", async () => {
    await project().traces.ofEvent({ path: "/orders", offset: 12 });
    expect(asked).toEqual([{ owner: "prj_a", traceId, principal: "admin" }]);
    await expect(project().traces.ofEvent({ path: "/orders", offset: 13 })).rejects.toMatchObject({
      code: "NOT_FOUND",
      message: expect.stringContaining("not traced") as unknown,
    });
    await expect(project().traces.ofEvent({ path: "/orders", offset: 11 })).rejects.toMatchObject({
      code: "NOT_FOUND",
      message: expect.stringContaining("no event") as unknown,
    });
  });
});

test("a deployment without telemetry says so", async () => {
  const reads = [
    project(null).logs.read(),
    project(null).traces.get(traceId),
    project(null).traces.ofEvent({ path: "/", offset: 12 }),
  ];
  for (const read of reads)
    await expect(read).rejects.toMatchObject({
      code: "NOT_A_METHOD",
      message: expect.stringContaining("TELEMETRY_URL") as unknown,
    });
});

test("over public gRPC the operator may ask for any owner, and nobody else", async () => {
  const { getTrace } = publicTelemetryService(client, "admin");
  const call = (principal: string | undefined) =>
    ({
      caller: { service: "public", principal },
      signal: new AbortController().signal,
      deadlineMs: 5_000,
    }) as unknown as CallContext;
  const ask = getTrace as unknown as (request: object, call: CallContext) => Promise<unknown>;
  await ask({ owner: "", traceId }, call("admin"));
  expect(asked).toMatchObject([{ owner: "", traceId, principal: "admin", deadlineMs: 5_000 }]);
  for (const principal of ["someone", undefined]) {
    expect(() => ask({ owner: "prj_a", traceId }, call(principal))).toThrow(
      expect.objectContaining(codedError("FORBIDDEN", "telemetry is for the operator of the deployment")) as Error,
    );
  }
});
