/**
 * The runner's side of isolates: makes bundles ready, runs invocations and answers their host calls. Everything that comes back has
 * crossed from hostile code: frames and descriptions are parsed to their exact shapes, host-call arguments to a list.
 */
import type { Readable } from "node:stream";
import {
  IsolateServiceClient,
  type HostCall,
  type InvokeEnd,
  type InvokeResponse,
  type InvokeStart,
} from "@iterate-platform/proto/iterate/runner/v1/isolate";
import { createClient, type ServiceClient } from "@iterate-platform/service/grpc-client";
import type { Trust } from "@iterate-platform/service/trust";
import { CodedError, codedError } from "iterate/lib";
import type { BatchAnswer } from "iterate/stream/processor";
import { Pool, type Dispatcher } from "undici";
import { parseBatchFrame } from "./batch-frame.js";
import { bundleKey, type BundleModule, type BundleRef } from "./bundle.js";
import { chunkBytes, wireKinds } from "./bundle-intake.js";
import { parseDescription, type BundleDescription } from "./description.js";
import { exchangeHeaders, forwardable, toSupervisorHeaders } from "./exchange-headers.js";
import { hostReply, type IsolateHost } from "./host-reply.js";
import { endError } from "./invocation-end.js";

export type { IsolateHost } from "./host-reply.js";
export type { BundleDescription } from "./description.js";

/** A bundle and where its modules come from when an isolate pod asks for them. */
export interface IsolateBundle extends BundleRef {
  /** Module whose default export is the config entry point. */
  readonly mainModule?: string;
  /** Modules whose exported classes may be invoked. */
  readonly entryModules: readonly string[];
  /** Called only when they are needed, then once per load. */
  modules(): AsyncIterable<BundleModule> | Iterable<BundleModule>;
}

/** What every invocation names. */
export interface IsolateInvocation {
  readonly bundle: IsolateBundle;
  /** `inv_…`, for records; the code never sees it. */
  readonly invocationId: string;
  /** Context the code runs in, and the one the call came from. */
  readonly contextPath: string;
  readonly callerPath: string;
  readonly deadlineMs: number;
  /** Most host calls; the isolate's own limit when absent. */
  readonly maxHostCalls?: number;
  readonly traceparent?: string;
  /** Alone in a fresh process that ends with the invocation. */
  readonly quarantine?: boolean;
  /** Cancels: the code is stopped, host calls in flight are given up. */
  readonly signal?: AbortSignal;
}

export interface BatchInvocation extends IsolateInvocation {
  readonly module: string;
  readonly className: string;
  /** What `processEventBatch` takes; sent as JSON. */
  readonly input: unknown;
}

export interface ProjectRequest {
  readonly method: string;
  /** Absolute; the code sees it as it is. */
  readonly url: string;
  readonly headers: Iterable<readonly [string, string]>;
  readonly body?: Readable | null;
}

export interface ProjectResponse {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  /** Ends with an error when the invocation is cut. Destroying it cancels the invocation. */
  readonly body: Readable;
  /** Settles when the invocation is over; rejects with why it was cut. */
  readonly done: Promise<void>;
}

export interface IsolatePoolOptions {
  readonly trust: Trust;
  /** gRPC URL of `runner-isolate`. */
  readonly url: string;
  /** Its internal HTTP listener. */
  readonly httpUrl: string;
}

const audience = "runner-isolate";
/** Host call of the harness itself: "the checkpoint is kept, go on". */
const proceedMethod = "batch.proceed";
/** Added to an invocation's own deadline before the call is given up: the supervisor's answer is the better one. */
const graceMs = 15_000;
/** A start may wait for room, then for a process, then take the start deadline. */
const ensureDeadlineMs = 30_000;

export class IsolatePool {
  readonly #client: ServiceClient<typeof IsolateServiceClient.service>;
  readonly #trust: Trust;
  readonly #http: Pool;
  readonly #ensuring = new Map<string, Promise<void>>();

  constructor({ trust, url, httpUrl }: IsolatePoolOptions) {
    this.#trust = trust;
    this.#client = createClient(IsolateServiceClient, url, { trust, audience });
    this.#http = new Pool(httpUrl, { connections: 256, headersTimeout: 0, bodyTimeout: 0 });
  }

  /**
   * Resolves once a process for the bundle is ready; concurrent calls for one bundle are one. May be retried.
   * @throws ISOLATE_START when it does not load; OVERLOADED, UNAVAILABLE.
   */
  ensure(bundle: IsolateBundle): Promise<void> {
    const key = bundleKey(bundle);
    const running = this.#ensuring.get(key);
    if (running !== undefined) return running;
    const ensured = this.#ensure(bundle).finally(() => this.#ensuring.delete(key));
    this.#ensuring.set(key, ensured);
    return ensured;
  }

  /**
   * One batch through a processor class: `checkpoint`, then `settled`. Background work of the batch starts when the second is asked
   * for, so commit the checkpoint first. Leaving the loop cancels.
   * @throws what ended the invocation, with `data.killed`, `data.alone` and `data.stack` where they apply. ISOLATE_LOST may be
   * retried and charges nobody.
   */
  async *processBatch(batch: BatchInvocation, host: IsolateHost): AsyncGenerator<BatchAnswer, void> {
    const { module, className, input } = batch;
    const value = { module, className, input: Buffer.from(JSON.stringify(input)) };
    let expected: BatchAnswer["kind"] | undefined = "checkpoint";
    // Background work starts once the caller has taken the checkpoint and asks for more: the harness waits for this answer.
    const kept = Promise.withResolvers<null>();
    const withProceed: IsolateHost = {
      hostCall: (call, signal) => (call.method === proceedMethod ? kept.promise : host.hostCall(call, signal)),
      log: (record) => host.log?.(record),
    };
    for await (const frame of this.#frames(batch, { $case: "processBatch", value }, withProceed)) {
      const answer = parseBatchFrame(frame);
      if (answer.kind !== expected)
        throw codedError("ISOLATE_OUTPUT", `The process answered ${answer.kind} where ${expected ?? "nothing"} follows.`);
      expected = answer.kind === "checkpoint" ? "settled" : undefined;
      yield answer;
      kept.resolve(null);
    }
    if (expected !== undefined) throw codedError("ISOLATE_OUTPUT", `The batch ended without its ${expected}.`);
  }

  /** Loads the bundle, constructs its default export and describes its classes: the probe of a publication. */
  async describe(invocation: IsolateInvocation, host: IsolateHost): Promise<BundleDescription> {
    let description: BundleDescription | undefined;
    for await (const frame of this.#frames(invocation, { $case: "describe", value: {} }, host))
      description ??= parseDescription(frame);
    if (description === undefined) throw codedError("ISOLATE_OUTPUT", "The process described nothing.");
    return description;
  }

  /**
   * Hands a request to the project's default export. Resolves with its head; bodies stream both ways.
   * @throws CODE_FAILED when the code threw, and whatever else ended the invocation.
   */
  async fetch(invocation: IsolateInvocation, request: ProjectRequest, host: IsolateHost): Promise<ProjectResponse> {
    const ticket = Promise.withResolvers<string>();
    const done = this.#consume(invocation, { $case: "fetch", value: {} }, host, (step) => {
      if (step.$case === "fetchReady") ticket.resolve(step.value.ticket);
    });
    // `done` is handed out with a response; until then its failure is the exchange's.
    const failed = done.then(() =>
      Promise.reject<never>(codedError("ISOLATE_OUTPUT", "The invocation ended without taking the request.")),
    );
    failed.catch(() => undefined);
    const exchange = this.#exchange(await Promise.race([ticket.promise, failed]), request, invocation.signal);
    exchange.catch(() => undefined);
    // An exchange that broke is explained by the invocation's end, which follows it.
    const answer = await exchange.catch((thrown: unknown) =>
      Promise.race([failed, after(1_000).then(() => Promise.reject(lost(thrown)))]),
    );
    if (answer.headers[exchangeHeaders.outcome] === "returned")
      return { status: answer.statusCode, headers: pairsOf(answer.headers), body: answer.body, done };
    await answer.body.dump();
    return failed;
  }

  async close(): Promise<void> {
    this.#client.close();
    await this.#http.destroy();
  }

  async #ensure(bundle: IsolateBundle): Promise<void> {
    const { owner, digest } = bundle;
    const call = this.#client.ensure({ deadlineMs: ensureDeadlineMs });
    await call.send({ step: { $case: "bundle", value: { owner, digest } } });
    let isReady = false;
    // Read to its end: leaving early resets the stream, and a server takes only so many resets.
    for await (const { state } of call.responses) {
      if (state?.$case === "ready") {
        isReady = true;
        call.end();
      }
      if (state?.$case !== "modulesNeeded") continue;
      for await (const { name, kind, data } of bundle.modules()) {
        // An empty module is one empty chunk.
        for (let from = 0; from === 0 || from < data.byteLength; from += chunkBytes) {
          await call.send({
            step: {
              $case: "chunk",
              value: { name, kind: wireKinds[kind], data: Buffer.from(data.subarray(from, from + chunkBytes)) },
            },
          });
        }
      }
      await call.send({
        step: { $case: "end", value: { mainModule: bundle.mainModule ?? "", entryModules: [...bundle.entryModules] } },
      });
    }
    if (!isReady) throw codedError("UNAVAILABLE", "The isolate pod ended the load without saying that the bundle is ready.");
  }

  async *#frames(
    invocation: IsolateInvocation,
    call: NonNullable<InvokeStart["call"]>,
    host: IsolateHost,
  ): AsyncGenerator<Uint8Array, void> {
    for await (const step of this.#steps(invocation, call, host)) if (step.$case === "frame") yield step.value;
  }

  async #consume(
    invocation: IsolateInvocation,
    call: NonNullable<InvokeStart["call"]>,
    host: IsolateHost,
    take: (step: Step) => void,
  ): Promise<void> {
    for await (const step of this.#steps(invocation, call, host)) take(step);
  }

  /** The steps of one invocation, host calls and records handled. A pod that lacks the modules is given them, once. */
  async *#steps(
    invocation: IsolateInvocation,
    call: NonNullable<InvokeStart["call"]>,
    host: IsolateHost,
  ): AsyncGenerator<Step, void> {
    try {
      return yield* this.#attempt(invocation, call, host);
    } catch (thrown) {
      if (!isMissingBundle(thrown)) throw thrown;
    }
    await this.ensure(invocation.bundle);
    yield* this.#attempt(invocation, call, host);
  }

  async *#attempt(
    invocation: IsolateInvocation,
    call: NonNullable<InvokeStart["call"]>,
    host: IsolateHost,
  ): AsyncGenerator<Step, void> {
    const over = new AbortController();
    let end: InvokeEnd | undefined;
    const stream = this.#client.invoke({ signal: invocation.signal, deadlineMs: invocation.deadlineMs + graceMs });
    try {
      await stream.send({ step: { $case: "start", value: startOf(invocation, call) } });
      for await (const { step } of stream.responses) {
        if (step?.$case === "hostCall") void this.#answer(stream, host, step.value, over.signal);
        else if (step?.$case === "log")
          host.log?.({ level: step.value.level, message: step.value.message, atUs: Number(step.value.atUs) });
        else if (step?.$case === "end") {
          end = step.value;
          stream.end();
        } else if (step !== undefined) yield step;
      }
      if (end === undefined) throw codedError("UNAVAILABLE", "The isolate pod ended the invocation without its end.");
      const error = endError(end);
      if (error !== undefined) throw error;
    } finally {
      over.abort(codedError("CANCELLED", "The invocation is over."));
      stream.end();
    }
  }

  /** Never rejects: a call that cannot take the answer is over, or is given up. */
  async #answer(stream: InvokeStream, host: IsolateHost, call: HostCall, signal: AbortSignal): Promise<void> {
    try {
      const value = await hostReply(host, call, signal);
      if (!signal.aborted) await stream.send({ step: { $case: "hostReply", value } });
    } catch {
      stream.cancel();
    }
  }

  async #exchange(ticket: string, request: ProjectRequest, signal: AbortSignal | undefined): Promise<Dispatcher.ResponseData> {
    const url = new URL(request.url);
    const headers = toSupervisorHeaders(
      [...request.headers].filter(([name]) => name.toLowerCase() !== "host"),
      url.protocol.slice(0, -1),
      ticket,
    );
    const service = Object.entries(await this.#trust.headers(audience));
    return this.#http.request({
      path: url.pathname + url.search,
      method: request.method,
      headers: [...headers, ["host", url.host], ...service].flat(),
      body: request.body ?? null,
      ...(signal === undefined ? {} : { signal }),
    });
  }
}

type Step = NonNullable<InvokeResponse["step"]>;
type InvokeStream = ReturnType<ServiceClient<typeof IsolateServiceClient.service>["invoke"]>;

function startOf(invocation: IsolateInvocation, call: NonNullable<InvokeStart["call"]>): InvokeStart {
  const { bundle, invocationId, deadlineMs, contextPath, callerPath } = invocation;
  return {
    bundle: { owner: bundle.owner, digest: bundle.digest },
    invocationId,
    deadlineMs,
    maxHostCalls: invocation.maxHostCalls ?? 0,
    contextPath,
    callerPath,
    traceparent: invocation.traceparent ?? "",
    quarantine: invocation.quarantine ?? false,
    call,
  };
}

function isMissingBundle(thrown: unknown): boolean {
  return thrown instanceof CodedError && thrown.code === "NOT_FOUND" && thrown.data["missing"] === "bundle";
}

function pairsOf(headers: Readonly<Record<string, string | string[] | undefined>>): [string, string][] {
  return forwardable(
    Object.entries(headers).flatMap(([name, values]) => [values ?? []].flat().map((value): [string, string] => [name, value])),
  );
}

function lost(cause: unknown): CodedError {
  return new CodedError("UNAVAILABLE", "The isolate pod cut the request without saying why.", { cause });
}

function after(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
