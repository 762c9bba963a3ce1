/** What the tests of this folder run isolates with: small bundles, a sink that remembers, and the operations in one call. */
import type { CodedError } from "iterate/lib";
import type { Bundle } from "./bundle.js";
import { runFrames } from "./frames.js";
import type { HostCall, HostReply, Invocation, InvocationSink } from "./invocation.js";
import { Isolate } from "./isolate.js";
import { invocationLimits, isolateLimits, type IsolateLimits } from "./limits.js";
import type { LogRecord } from "./log-record.js";
import { isolatePrograms } from "./platform.js";
import type { ProjectFailure } from "./project-failure.js";

let bundles = 0;

/** A bundle of one module `main.js`, main and entry at once. */
export function bundleOf(source: string, extra: Readonly<Record<string, string>> = {}): Bundle {
  const modules = Object.entries({ "main.js": source, ...extra }).map(([name, text]) => ({
    name,
    kind: "esModule" as const,
    data: Buffer.from(text),
  }));
  return { owner: "prj_test", digest: `d${++bundles}`, modules, mainModule: "main.js", entryModules: ["main.js"] };
}

/** A processor class `P` whose batch runs `body` with `input`, and yields what the body yields. */
export function processorBundle(body: string, prelude = ""): Bundle {
  return bundleOf(`${prelude}
const itx = () => globalThis[Symbol.for("iterate.isolate")].invocation().itx;
export class P { async *processEventBatch(input) { ${body} } }`);
}

export function startIsolate(bundle: Bundle, limits: Partial<IsolateLimits> = {}): Promise<Isolate> {
  return Isolate.start(bundle, { limits: { ...isolateLimits, ...limits }, programs: isolatePrograms() });
}

export interface Outcome {
  readonly frames: unknown[];
  readonly logs: LogRecord[];
  readonly hostCalls: HostCall[];
  /** What the code threw. */
  readonly failure?: ProjectFailure;
  /** What ended the invocation. */
  readonly error?: CodedError;
}

export interface RunOptions {
  readonly limits?: Partial<IsolateLimits>;
  readonly deadlineMs?: number;
  readonly hostCalls?: number;
  readonly input?: unknown;
  /** Answers a host call; the default echoes the arguments. */
  readonly onHostCall?: (call: HostCall, invocation: Invocation) => void;
  readonly operation?: "describe" | "process-batch";
}

/** Runs one batch of class `P` in `main.js` to its end. Never rejects. */
export async function run(isolate: Isolate, options: RunOptions = {}): Promise<Outcome> {
  const table = { ...isolateLimits, ...options.limits };
  const outcome: Outcome & { failure?: ProjectFailure; error?: CodedError } = { frames: [], logs: [], hostCalls: [] };
  let invocation: Invocation | undefined;
  const sink: InvocationSink = {
    log: (record) => outcome.logs.push(record),
    frame: (bytes) => void outcome.frames.push(JSON.parse(Buffer.from(bytes).toString())),
    hostCall: (call) => {
      outcome.hostCalls.push(call);
      if (options.onHostCall !== undefined) options.onHostCall(call, invocation!);
      else invocation!.reply(echo(call));
    },
  };
  try {
    invocation = isolate.open(
      "inv_test",
      invocationLimits({ deadlineMs: options.deadlineMs ?? 20_000, hostCalls: options.hostCalls ?? 1_000 }, table),
      sink,
    );
    const failure = await runFrames(
      isolate,
      invocation,
      {
        operation: options.operation ?? "process-batch",
        surroundings: { contextPath: "/a", callerPath: "/b" },
        module: "main.js",
        className: "P",
        body: Buffer.from(JSON.stringify(options.input ?? {})),
      },
      table.frameBytes,
    );
    if (failure !== undefined) outcome.failure = failure;
  } catch (thrown) {
    outcome.error = thrown as CodedError;
  } finally {
    if (invocation !== undefined) isolate.close(invocation);
  }
  return outcome;
}

export function echo(call: HostCall): HostReply {
  return { callId: call.callId, succeeded: true, body: call.args };
}
