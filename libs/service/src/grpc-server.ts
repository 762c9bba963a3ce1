/**
 * A gRPC server as every service runs it: callers proven and admitted by a table, typed errors, bounded messages, keepalive, a
 * connection age that spreads clients over new pods, health, reflection, and a drain that finishes what is in flight.
 */
import { Server, ServerCredentials, type UntypedHandleCall } from "@grpc/grpc-js";
import { HealthService } from "@iterate-platform/proto/grpc/health/v1/health";
import { codedError, type CodedError, type ErrorCode } from "iterate/lib";
import type { Caller, MethodPolicy } from "./caller.js";
import type { ListenAddress } from "./config.js";
import { foreignTraceInterceptor, linkForeignCall } from "./foreign-trace.js";
import type { OpenCall, ServerCall } from "./grpc-call.js";
import * as handlers from "./grpc-handlers.js";
import { Health } from "./grpc-health.js";
import { addReflection } from "./grpc-reflection.js";
import type { Handlers, MethodDefinition, ServiceDefinition } from "./grpc-types.js";
import type { Log } from "./log.js";
import { maxRequestBytes, maxResponseBytes, type RequestLimits } from "./message-limits.js";
import { answerFor } from "./status.js";
import type { Trust } from "./trust.js";

export { EncodedMessage, raw, type Handlers, type HandlerOf } from "./grpc-types.js";
export type { CallContext, RawCall } from "./grpc-call.js";
export type { Caller, ExecutionClaims, MethodPolicy } from "./caller.js";

export interface MethodRule extends MethodPolicy {
  /**
   * What a drain does to a stream of this method: `reopen` (default) ends it with UNAVAILABLE once what was begun is answered, so the
   * client goes elsewhere; `finish` lets it run to its own end, within the drain's bound.
   */
  readonly drain?: "finish" | "reopen";
}

/** The rule of each method; a method without one admits nobody. */
export type MethodRules<Definition> = { readonly [Name in keyof Definition]?: MethodRule };

export interface GrpcServerOptions {
  /** Service name, for messages. */
  readonly name: string;
  readonly listen: ListenAddress;
  readonly log: Log;
  /** Proves callers by service tokens. */
  readonly trust?: Trust;
  /** Proves callers in another way (public listeners); takes precedence over `trust`. Throws or rejects with UNAUTHENTICATED. */
  readonly authenticate?: (call: ServerCall) => Caller | Promise<Caller>;
  /** A `traceparent` from outside is linked, never a parent: for listeners that strangers reach. */
  readonly foreignTraces?: boolean;
  /** A serialised FileDescriptorSet; without one there is no reflection. */
  readonly descriptorSet?: Uint8Array;
  readonly credentials?: ServerCredentials;
  /** Request limits by method path, bytes, over the built-in ones. */
  readonly maxRequestBytes?: RequestLimits;
  /** Deadline of a unary call that brings none, ms. Default 30,000. */
  readonly defaultDeadlineMs?: number;
  /** Age at which a connection is asked to reconnect, ms (± 10 %), and how long its streams may then go on. Default 30 and 5 minutes. */
  readonly maxConnectionAgeMs?: number;
  readonly maxConnectionAgeGraceMs?: number;
  /** Calls open at a time on one connection. Default 1,000. */
  readonly maxConcurrentStreams?: number;
  /** Says what an error of a library means (e.g. a lost database is UNAVAILABLE); undefined leaves it a fault of the platform. */
  readonly classify?: (thrown: unknown) => CodedError | undefined;
  /** Told of every finished call: method path, code, milliseconds. */
  readonly observe?: (method: string, code: "OK" | ErrorCode, ms: number) => void;
}

export interface GrpcServer {
  /** Serves `definition`; before `start`. */
  add<Definition extends object>(definition: Definition, handlers: Handlers<Definition>, rules: MethodRules<Definition>): void;
  /** Binds and serves; resolves to the port. Throws UNAVAILABLE naming the variable when the address cannot be bound. */
  start(): Promise<number>;
  /** Overrides what health says, e.g. NOT_SERVING while not ready. */
  setServing(isServing: boolean, service?: string): void;
  /**
   * Takes no new connection, says NOT_SERVING and GOAWAY, lets calls finish and streams reopen elsewhere for `boundMs`, then ends what
   * is left with UNAVAILABLE. Resolves to the number of calls that were ended by force. Idempotent.
   */
  drain(boundMs: number): Promise<number>;
  /** Calls open now. */
  readonly inFlight: number;
  /** Every method served, with its rule: the source of the reference page. */
  readonly methods: readonly { readonly path: string; readonly rule: MethodRule | undefined }[];
}

/** Both ends ping an idle connection, so a silent peer is noticed within 13 s. */
export const keepaliveOptions = { "grpc.keepalive_time_ms": 8_000, "grpc.keepalive_timeout_ms": 5_000 } as const;

/** What the last answers get to reach the wire once a drain is at its bound. */
const forcedFlushMs = 250;

export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  if (options.trust === undefined && options.authenticate === undefined)
    throw codedError("INVALID_INPUT", `the gRPC server of ${options.name} has no way to prove its callers`);
  return new GrpcServerImplementation(options);
}

class GrpcServerImplementation implements GrpcServer {
  readonly #options: GrpcServerOptions;
  readonly #server: Server;
  readonly #health = new Health();
  readonly #services: string[] = [];
  readonly #open = new Set<OpenCall>();
  readonly #draining = new AbortController();
  readonly #authenticate: (call: ServerCall) => Caller | Promise<Caller>;
  readonly methods: { path: string; rule: MethodRule | undefined }[] = [];
  #drain: Promise<number> | null = null;

  constructor(options: GrpcServerOptions) {
    this.#options = options;
    const trust = options.trust;
    const authenticate: (call: ServerCall) => Caller | Promise<Caller> =
      options.authenticate ?? ((call) => trust!.authenticate((name) => call.metadata.get(name)[0] as string | undefined));
    this.#authenticate =
      options.foreignTraces !== true
        ? authenticate
        : (call) => {
            linkForeignCall(call.metadata);
            return authenticate(call);
          };
    this.#server = new Server({
      ...keepaliveOptions,
      "grpc.max_connection_age_ms": options.maxConnectionAgeMs ?? 30 * 60_000,
      "grpc.max_connection_age_grace_ms": options.maxConnectionAgeGraceMs ?? 5 * 60_000,
      "grpc.max_concurrent_streams": options.maxConcurrentStreams ?? 1_000,
      // The methods' own limits decide; this one keeps the transport from buffering more than any of them.
      "grpc.max_receive_message_length": Math.max(maxResponseBytes, ...Object.values(options.maxRequestBytes ?? {})) + 1,
      "grpc.max_send_message_length": -1,
      "grpc.enable_channelz": 0,
      ...(options.foreignTraces === true ? { interceptors: [foreignTraceInterceptor] } : {}),
    });
  }

  get inFlight(): number {
    return this.#open.size;
  }

  add<Definition extends object>(
    definition: Definition,
    implementation: Handlers<Definition>,
    rules: MethodRules<Definition>,
  ): void {
    for (const [name, method] of Object.entries(definition as ServiceDefinition)) {
      const rule = rules[name as keyof Definition];
      this.methods.push({ path: method.path, rule });
      this.#register(method, rule, implementation[name as keyof Definition]);
    }
    const service = Object.values(definition as ServiceDefinition)[0]?.path.split("/")[1];
    if (service === undefined) return;
    this.#services.push(service);
    this.#health.set(false, service);
  }

  async start(): Promise<number> {
    const { name, listen, descriptorSet, credentials } = this.#options;
    this.#server.addService(HealthService, this.#health.implementation);
    if (descriptorSet !== undefined) addReflection(this.#server, descriptorSet, [...this.#services, "grpc.health.v1.Health"]);
    const host = listen.host.includes(":") ? `[${listen.host}]` : listen.host;
    const port = await new Promise<number>((resolve, reject) => {
      this.#server.bindAsync(`${host}:${listen.port}`, credentials ?? ServerCredentials.createInsecure(), (error, bound) => {
        if (error === null) resolve(bound);
        else
          reject(
            codedError(
              "UNAVAILABLE",
              `${name} cannot listen on ${listen.variable}=${host}:${listen.port} (${error.message}); free the port or set ${listen.variable}`,
              { variable: listen.variable },
            ),
          );
      });
    });
    this.#health.set(true);
    return port;
  }

  setServing(isServing: boolean, service?: string): void {
    if (this.#drain === null) this.#health.set(isServing, service);
  }

  drain(boundMs: number): Promise<number> {
    this.#drain ??= this.#drainNow(boundMs);
    return this.#drain;
  }

  async #drainNow(boundMs: number): Promise<number> {
    this.#health.set(false);
    this.#health.end();
    this.#draining.abort();
    for (const call of this.#open) call.drain();
    const closed = new Promise<void>((resolve) => this.#server.tryShutdown(() => resolve()));
    if (await settlesWithin(closed, boundMs)) return 0;
    const forced = this.#open.size;
    for (const call of [...this.#open])
      call.abort(codedError("UNAVAILABLE", "the server stopped before the call was finished; retry with the same ids"));
    await settlesWithin(closed, forcedFlushMs);
    this.#server.forceShutdown();
    return forced;
  }

  #register(method: MethodDefinition, rule: MethodRule | undefined, handler: unknown): void {
    const host: handlers.MethodHost = {
      method,
      policy: rule,
      maxRequestBytes: maxRequestBytes(method.path, this.#options.maxRequestBytes),
      drain: rule?.drain ?? "reopen",
      draining: this.#draining.signal,
      defaultDeadlineMs: this.#options.defaultDeadlineMs ?? 30_000,
      authenticate: this.#authenticate,
      answerFor: (thrown) => answerFor(this.#options.classify?.(thrown) ?? thrown, this.#options.log, { method: method.path }),
      open: (call) => this.#opened(method.path, call),
    };
    const asBuffer = (bytes: Buffer): Buffer => bytes;
    const [call, type] = callOf(host, handler);
    this.#server.register(method.path, call as UntypedHandleCall, asBuffer, asBuffer, type);
  }

  #opened(path: string, call: OpenCall): (code: "OK" | ErrorCode) => void {
    this.#open.add(call);
    const observe = this.#options.observe;
    if (observe === undefined) return () => void this.#open.delete(call);
    const startedAt = performance.now();
    return (code) => {
      this.#open.delete(call);
      observe(path, code, performance.now() - startedAt);
    };
  }
}

function callOf(
  host: handlers.MethodHost,
  handler: unknown,
): [call: unknown, type: "unary" | "serverStream" | "clientStream" | "bidi"] {
  const { requestStream, responseStream, path } = host.method;
  const missing = (): never => {
    throw codedError("NOT_A_METHOD", `${path} is not served here`);
  };
  const given = handler ?? missing;
  if (!requestStream && !responseStream) return [handlers.unaryCall(host, given as handlers.UnaryHandler), "unary"];
  if (!requestStream) return [handlers.serverStreamCall(host, given as handlers.ServerStreamHandler), "serverStream"];
  if (!responseStream) return [handlers.clientStreamCall(host, given as handlers.ClientStreamHandler), "clientStream"];
  if (typeof given === "object" && "raw" in given)
    return [handlers.rawCall(host, given as Parameters<typeof handlers.rawCall>[1]), "bidi"];
  return [handlers.bidiCall(host, given as handlers.BidiHandler), "bidi"];
}

async function settlesWithin(promise: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const bound = new Promise<false>((resolve) => (timer = setTimeout(resolve, ms, false)));
  try {
    return await Promise.race([promise.then(() => true as const), bound]);
  } finally {
    clearTimeout(timer);
  }
}
