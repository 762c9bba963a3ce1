/** `IsolateService` at the gRPC edge: decodes steps, drives the pool and one invocation, encodes steps. No policy of its own. */
import type {
  EnsureRequest,
  EnsureResponse,
  InvokeRequest,
  InvokeResponse,
  InvokeStart,
  IsolateServiceService,
} from "@iterate-platform/proto/iterate/runner/v1/isolate";
import type { CallContext, Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import { fromStatus, toStatus } from "@iterate-platform/service/status";
import { CodedError, codedError, isCodedError } from "iterate/lib";
import { assertBundleRef } from "./bundle.js";
import { receiveBundle } from "./bundle-intake.js";
import { Exchange } from "./exchange.js";
import { runFrames } from "./frames.js";
import type { HostCall, Invocation, InvocationSink } from "./invocation.js";
import type { Isolate, Surroundings } from "./isolate.js";
import { invocationLimits, type IsolateLimits } from "./limits.js";
import { Outbox } from "./outbox.js";
import type { ProcessPool } from "./process-pool.js";
import type { ProjectFailure } from "./project-failure.js";
import { toSourcePlaces } from "./source-places.js";

export interface IsolateServiceParts {
  readonly pool: ProcessPool<Isolate>;
  readonly limits: IsolateLimits;
  /** Exchanges announced and not yet over, by ticket: the HTTP listener finds them here. */
  readonly exchanges: Map<string, Exchange>;
}

type Definition = typeof IsolateServiceService;

/** Only the runner calls, and for no person and no code: what code may do is decided where its host calls arrive. */
export const isolateServiceRules: MethodRules<Definition> = {
  ensure: { services: ["runner"], execution: "refused", person: "refused" },
  invoke: { services: ["runner"], execution: "refused", person: "refused", drain: "finish" },
};

export function isolateServiceHandlers(parts: IsolateServiceParts): Handlers<Definition> {
  return { ensure: (requests) => ensure(parts, requests), invoke: (requests, call) => invoke(parts, requests, call) };
}

async function* ensure(
  { pool, limits }: IsolateServiceParts,
  requests: AsyncIterable<EnsureRequest>,
): AsyncIterable<EnsureResponse> {
  const startedAt = performance.now();
  const steps = requests[Symbol.asyncIterator]();
  const first = (await steps.next()).value as EnsureRequest | undefined;
  if (first?.step?.$case !== "bundle") throw codedError("INVALID_INPUT", "The first step of Ensure names the bundle.");
  const ref = first.step.value;
  assertBundleRef(ref);
  if (!pool.knows(ref)) {
    yield { state: { $case: "modulesNeeded", value: {} } };
    pool.keep(await receiveBundle(ref, steps, limits));
  }
  (await pool.acquire(ref, { quarantine: false })).release();
  yield { state: { $case: "ready", value: { startMs: Math.round(performance.now() - startedAt) } } };
}

/** What is queued for a runner that reads slowly before the code is slowed too. */
const outboxBytes = 1024 * 1024;

async function* invoke(
  parts: IsolateServiceParts,
  requests: AsyncIterable<InvokeRequest>,
  call: CallContext,
): AsyncIterable<InvokeResponse> {
  const steps = requests[Symbol.asyncIterator]();
  const first = (await steps.next()).value as InvokeRequest | undefined;
  if (first?.step?.$case !== "start") throw codedError("INVALID_INPUT", "The first step of Invoke is its start.");
  const start = first.step.value;
  if (start.bundle === undefined || start.call === undefined)
    throw codedError("INVALID_INPUT", "The start of an invocation names a bundle and a call.");
  assertBundleRef(start.bundle);
  const outbox = new Outbox<InvokeResponse>(outboxBytes);
  void runToEnd(parts, start, steps, call.signal, outbox);
  yield* outbox;
}

/** Never rejects: whatever happens is the invocation's end. */
async function runToEnd(
  { pool, limits, exchanges }: IsolateServiceParts,
  start: InvokeStart,
  steps: AsyncIterator<InvokeRequest>,
  signal: AbortSignal,
  outbox: Outbox<InvokeResponse>,
): Promise<void> {
  const startedAt = performance.now();
  const send = (step: NonNullable<InvokeResponse["step"]>, bytes = 256) => outbox.push({ step }, bytes);
  let failure: ProjectFailure | undefined;
  let killed = false;
  try {
    const wishes = invocationLimits({ deadlineMs: start.deadlineMs, hostCalls: start.maxHostCalls }, limits);
    const lease = await pool.acquire(start.bundle!, { quarantine: start.quarantine, signal });
    const inSources = (text: string): string => toSourcePlaces(text, lease.isolate.bundle);
    const invocation = lease.isolate.open(start.invocationId, wishes, sinkTo(send, inSources));
    const cancel = () => invocation.end(codedError("CANCELLED", "The caller of this invocation went away."));
    signal.addEventListener("abort", cancel, { once: true });
    void passReplies(steps, invocation);
    try {
      const thrown = await run(start, lease.isolate, invocation, exchanges, send, limits.frameBytes);
      failure = thrown && { ...thrown, stack: inSources(thrown.stack) };
    } finally {
      signal.removeEventListener("abort", cancel);
      killed = !lease.isolate.isAlive;
      lease.isolate.close(invocation);
      lease.release();
    }
  } catch (thrown) {
    failure = { error: isCodedError(thrown) ? thrown : internal(thrown), stack: "" };
  }
  const durationMs = Math.round(performance.now() - startedAt);
  const error = failure === undefined ? undefined : toStatus(failure.error);
  void send({
    $case: "end",
    value: { ...(error === undefined ? {} : { error }), stack: failure?.stack ?? "", killed, durationMs },
  });
  outbox.close();
}

async function run(
  start: InvokeStart,
  isolate: Isolate,
  invocation: Invocation,
  exchanges: Map<string, Exchange>,
  send: (step: NonNullable<InvokeResponse["step"]>) => Promise<void>,
  frameBytes: number,
): Promise<ProjectFailure | undefined> {
  const surroundings: Surroundings = { contextPath: start.contextPath, callerPath: start.callerPath };
  const call = start.call!;
  switch (call.$case) {
    case "describe":
      return runFrames(isolate, invocation, { operation: "describe", surroundings }, frameBytes);
    case "processBatch": {
      const { module, className, input } = call.value;
      return runFrames(
        isolate,
        invocation,
        { operation: "process-batch", surroundings, module, className, body: input },
        frameBytes,
      );
    }
    case "fetch": {
      const exchange = new Exchange(isolate, invocation, surroundings);
      exchanges.set(exchange.ticket, exchange);
      try {
        void send({ $case: "fetchReady", value: { ticket: exchange.ticket } });
        return await exchange.done();
      } finally {
        exchanges.delete(exchange.ticket);
      }
    }
  }
}

function sinkTo(
  send: (step: NonNullable<InvokeResponse["step"]>, bytes?: number) => Promise<void>,
  inSources: (text: string) => string,
): InvocationSink {
  return {
    log: ({ level, message, atUs }) =>
      void send({ $case: "log", value: { level, message: inSources(message), atUs: BigInt(atUs) } }, message.length + 64),
    frame: (bytes) => send({ $case: "frame", value: Buffer.from(bytes) }, bytes.byteLength),
    // Not waited for: a session awaits at most `hostCallsInFlight` replies before it is read no further.
    hostCall: ({ callId, method, path, args }: HostCall) =>
      void send({ $case: "hostCall", value: { callId: BigInt(callId), method, path, args: Buffer.from(args) } }, args.byteLength),
  };
}

async function passReplies(steps: AsyncIterator<InvokeRequest>, invocation: Invocation): Promise<void> {
  try {
    for (let next = await steps.next(); next.done !== true; next = await steps.next()) {
      const { step } = next.value;
      if (step?.$case !== "hostReply") continue;
      const { callId, outcome } = step.value;
      const succeeded = outcome?.$case === "value";
      const body = succeeded ? outcome.value : Buffer.from(JSON.stringify(failureBody(outcome?.value)));
      invocation.reply({ callId: Number(callId), succeeded, body });
    }
  } catch {
    // The call is over; its signal has ended the invocation.
  }
}

function failureBody(status: Parameters<typeof fromStatus>[0] | undefined): { code: string; message: string; data: unknown } {
  const { code, message, data } =
    status === undefined ? codedError("INTERNAL", "The platform answered a host call with nothing.") : fromStatus(status, "runner");
  return { code, message, data };
}

function internal(thrown: unknown): CodedError {
  return new CodedError("INTERNAL", `The supervisor failed: ${thrown instanceof Error ? thrown.message : String(thrown)}`, {
    cause: thrown,
  });
}
