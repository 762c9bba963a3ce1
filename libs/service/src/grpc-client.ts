/**
 * A typed client of one service: promises and async iterables, a deadline on every call, credentials by Trust, cancellation by
 * signal, and failures as CodedErrors. One connection per address of the name, calls spread over them.
 */
import { ChannelCredentials, Client, Metadata, type ClientReadableStream, type ServiceError } from "@grpc/grpc-js";
import { CodedError, codedError, isCodedError } from "iterate/lib";
import { Outgoing, Responses } from "./grpc-client-stream.js";
import { Messages } from "./grpc-messages.js";
import { keepaliveOptions } from "./grpc-server.js";
import type { ClientConstructor, MethodDefinition, RequestOf, ResponseOf, ServiceDefinition } from "./grpc-types.js";
import { checkRequestSize, maxRequestBytes, maxResponseBytes, type RequestLimits } from "./message-limits.js";
import { fromServiceError } from "./status.js";
import { credentialHeaders, type CallCredentials, type Trust } from "./trust.js";

export interface CallOptions extends CallCredentials {
  /** Cancels the call; it then fails with CANCELLED. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds until the call fails with DEADLINE_EXCEEDED. Default 10,000 for calls with one answer, one hour for streams. */
  readonly deadlineMs?: number | undefined;
  /** Further metadata; names are lower-case. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

/** The client's side of a stream in both directions. */
export interface BidiCall<Request, Response> {
  /** Queues a request and resolves when the next may be sent. After the call's end it resolves; `responses` tells why it ended. */
  send(request: Request): Promise<void>;
  /** Says that no request follows. */
  end(): void;
  /** Gives up the call. */
  cancel(): void;
  /** The answers; leaving the loop early cancels the call. Throws the call's CodedError. */
  readonly responses: AsyncIterableIterator<Response, undefined>;
}

export interface ClientStreamCall<Request, Response> {
  send(request: Request): Promise<void>;
  end(): void;
  cancel(): void;
  readonly response: Promise<Response>;
}

export type MethodCall<Method> = Method extends { requestStream: false; responseStream: false }
  ? (request: RequestOf<Method>, options?: CallOptions) => Promise<ResponseOf<Method>>
  : Method extends { requestStream: false }
    ? (request: RequestOf<Method>, options?: CallOptions) => AsyncIterableIterator<ResponseOf<Method>, undefined>
    : Method extends { responseStream: false }
      ? (options?: CallOptions) => ClientStreamCall<RequestOf<Method>, ResponseOf<Method>>
      : (options?: CallOptions) => BidiCall<RequestOf<Method>, ResponseOf<Method>>;

/** A client of a generated service: one method per RPC, and `close`. */
export type ServiceClient<Definition> = { readonly [Name in keyof Definition]: MethodCall<Definition[Name]> } & { close(): void };

export interface ClientOptions {
  /** Signs the calls; without it they carry no service token. */
  readonly trust?: Trust;
  /** Name of the called service: the token's audience and the peer in messages. */
  readonly audience: string;
  readonly credentials?: ChannelCredentials;
  /** Request limits by method path, bytes, over the built-in ones. */
  readonly maxRequestBytes?: RequestLimits;
}

export const defaultDeadlineMs = 10_000;
export const defaultStreamDeadlineMs = 3_600_000;

/**
 * A client of `url`: `http(s)://host:port`, `host:port`, or a gRPC target such as `dns:///context:7410`. Connects when first
 * used and again by itself, for ever. Calls are not retried: whoever holds the ids decides.
 */
export function createClient<Definition extends object>(
  constructor: { readonly service: Definition; readonly serviceName: string },
  url: string,
  options: ClientOptions,
): ServiceClient<Definition> {
  const { target, isSecure } = targetOf(url);
  const client = new Client(
    target,
    options.credentials ?? (isSecure ? ChannelCredentials.createSsl() : ChannelCredentials.createInsecure()),
    {
      ...keepaliveOptions,
      "grpc.keepalive_permit_without_calls": 1,
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 5_000,
      "grpc.dns_min_time_between_resolutions_ms": 5_000,
      "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
      "grpc.max_receive_message_length": maxResponseBytes + 1,
      "grpc.max_send_message_length": -1,
      "grpc.enable_channelz": 0,
      // Services reach each other directly, whatever proxy the environment names for the world outside.
      "grpc.enable_http_proxy": 0,
    },
  );
  const calls = new Calls(client, options);
  const methods = Object.entries((constructor as ClientConstructor).service as ServiceDefinition).map(([name, method]) => [
    name,
    calls.method(method),
  ]);
  return { ...Object.fromEntries(methods), close: () => client.close() } as ServiceClient<Definition>;
}

function targetOf(url: string): { target: string; isSecure: boolean } {
  const match = /^(https?|grpcs?):\/\/([^/]+)\/?$/.exec(url);
  if (match === null) return { target: url, isSecure: false };
  return { target: match[2]!, isSecure: match[1]!.endsWith("s") };
}

const asBuffer = (bytes: Buffer): Buffer => bytes;

class Calls {
  readonly #client: Client;
  readonly #options: ClientOptions;
  #plainToken = "";
  #plain = new Metadata();

  constructor(client: Client, options: ClientOptions) {
    this.#client = client;
    this.#options = options;
  }

  method(method: MethodDefinition): unknown {
    const limit = maxRequestBytes(method.path, this.#options.maxRequestBytes);
    const encode = (request: unknown): Buffer => {
      const bytes = method.requestSerialize(request);
      checkRequestSize(method.path, bytes.length, limit);
      return bytes;
    };
    if (method.requestStream && method.responseStream) return (options: CallOptions = {}) => this.#bidi(method, encode, options);
    if (method.requestStream) return (options: CallOptions = {}) => this.#clientStream(method, encode, options);
    if (method.responseStream)
      return (request: unknown, options: CallOptions = {}) => this.#serverStream(method, encode, request, options);
    return (request: unknown, options: CallOptions = {}) => this.#unary(method, encode, request, options);
  }

  #unary(method: MethodDefinition, encode: (request: unknown) => Buffer, request: unknown, options: CallOptions): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const bytes = encode(request);
      const { signal } = options;
      if (signal?.aborted === true) return reject(cancelled(signal));
      const deadline = Date.now() + finite(options.deadlineMs, defaultDeadlineMs);
      const start = (metadata: Metadata): void => {
        if (signal?.aborted === true) return reject(cancelled(signal));
        const call = this.#client.makeUnaryRequest(
          method.path,
          asBuffer,
          asBuffer,
          bytes,
          metadata,
          { deadline },
          (error: ServiceError | null, response?: Buffer) => {
            signal?.removeEventListener("abort", cancel);
            if (error !== null) return reject(signal?.aborted === true ? cancelled(signal) : this.#failure(error));
            try {
              resolve(method.responseDeserialize(response!));
            } catch (error) {
              reject(this.#undecodable(method, error));
            }
          },
        );
        const cancel = (): void => call.cancel();
        signal?.addEventListener("abort", cancel, { once: true });
      };
      const metadata = this.#metadata(options);
      if (metadata instanceof Promise) metadata.then(start).catch(reject);
      else start(metadata);
    });
  }

  #serverStream(
    method: MethodDefinition,
    encode: (request: unknown) => Buffer,
    request: unknown,
    options: CallOptions,
  ): AsyncIterableIterator<unknown, undefined> {
    const bytes = encode(request);
    return this.#responses(method, options, (metadata, deadline) =>
      this.#client.makeServerStreamRequest(method.path, asBuffer, asBuffer, bytes, metadata, { deadline }),
    );
  }

  #bidi(method: MethodDefinition, encode: (request: unknown) => Buffer, options: CallOptions): BidiCall<unknown, unknown> {
    const outgoing = new Outgoing(encode);
    const responses = this.#responses(method, options, (metadata, deadline) => {
      const stream = this.#client.makeBidiStreamRequest(method.path, asBuffer, asBuffer, metadata, { deadline });
      outgoing.attach(stream);
      return stream;
    });
    responses.opened.catch(() => outgoing.close());
    return {
      send: (request) => outgoing.send(request),
      end: () => outgoing.end(),
      cancel: () => void responses.return(),
      responses,
    };
  }

  #clientStream(
    method: MethodDefinition,
    encode: (request: unknown) => Buffer,
    options: CallOptions,
  ): ClientStreamCall<unknown, unknown> {
    const outgoing = new Outgoing(encode);
    const controller = new AbortController();
    const signal = options.signal === undefined ? controller.signal : AbortSignal.any([options.signal, controller.signal]);
    const deadline = Date.now() + finite(options.deadlineMs, defaultStreamDeadlineMs);
    const response = Promise.resolve(this.#metadata(options)).then(
      (metadata) =>
        new Promise<unknown>((resolve, reject) => {
          if (signal.aborted) return reject(cancelled(signal));
          const stream = this.#client.makeClientStreamRequest(
            method.path,
            asBuffer,
            asBuffer,
            metadata,
            { deadline },
            (error: ServiceError | null, bytes?: Buffer) => {
              signal.removeEventListener("abort", cancel);
              outgoing.close();
              if (error !== null) return reject(signal.aborted ? cancelled(signal) : this.#failure(error));
              try {
                resolve(method.responseDeserialize(bytes!));
              } catch (error) {
                reject(this.#undecodable(method, error));
              }
            },
          );
          const cancel = (): void => stream.cancel();
          signal.addEventListener("abort", cancel, { once: true });
          outgoing.attach(stream);
        }),
    );
    response.catch(() => outgoing.close());
    return { send: (request) => outgoing.send(request), end: () => outgoing.end(), cancel: () => controller.abort(), response };
  }

  /** Opens a stream when its credentials are there and hands out its answers; the call begins at once, not at the first `next`. */
  #responses(
    method: MethodDefinition,
    options: CallOptions,
    open: (metadata: Metadata, deadline: number) => ClientReadableStream<Buffer>,
  ): Responses {
    const { signal } = options;
    const deadline = Date.now() + finite(options.deadlineMs, defaultStreamDeadlineMs);
    const begin = (metadata: Metadata): Messages<Buffer> => {
      if (signal?.aborted === true) throw cancelled(signal);
      const stream = open(metadata, deadline);
      const cancel = (): void => stream.cancel();
      const forget = (): void => signal?.removeEventListener("abort", cancel);
      signal?.addEventListener("abort", cancel, { once: true });
      stream.once("status", forget);
      const failure = (error: unknown): Error =>
        signal?.aborted === true ? cancelled(signal) : this.#failure(error as ServiceError);
      return new Messages<Buffer>(stream, { failure, abandon: cancel });
    };
    const decode = (bytes: Buffer): unknown => {
      try {
        return method.responseDeserialize(bytes) as unknown;
      } catch (error) {
        throw this.#undecodable(method, error);
      }
    };
    return new Responses(Promise.resolve(this.#metadata(options)).then(begin), decode);
  }

  #metadata(options: CallOptions): Metadata | Promise<Metadata> {
    const { trust, audience } = this.#options;
    if (trust === undefined) return metadataOf({}, options.metadata);
    if (options.execution === undefined && options.principal === undefined && options.metadata === undefined)
      return this.#plainMetadata(trust);
    const headers = trust.headers(audience, options);
    return headers instanceof Promise
      ? headers.then((headers) => metadataOf(headers, options.metadata))
      : metadataOf(headers, options.metadata);
  }

  /** The metadata of a call that carries a token alone: checked once per token, then copied. */
  #plainMetadata(trust: Trust): Metadata | Promise<Metadata> {
    const token = trust.serviceToken(this.#options.audience);
    if (token instanceof Promise) return token.then(() => this.#plainMetadata(trust));
    if (token !== this.#plainToken) {
      this.#plainToken = token;
      this.#plain = metadataOf({ [credentialHeaders.service]: `Bearer ${token}` }, undefined);
    }
    return this.#plain.clone();
  }

  #failure(error: ServiceError): CodedError {
    return isCodedError(error) ? error : fromServiceError(error, this.#options.audience);
  }

  #undecodable(method: MethodDefinition, cause: unknown): CodedError {
    return new CodedError(
      "INTERNAL",
      `${this.#options.audience} answered ${method.path} with something that is not a message of its type`,
      { cause },
    );
  }
}

function metadataOf(headers: Readonly<Record<string, string>>, more: Readonly<Record<string, string>> | undefined): Metadata {
  const metadata = new Metadata();
  for (const name in headers) metadata.set(name, headers[name]!);
  for (const name in more) metadata.set(name, more[name]!);
  return metadata;
}

/** A deadline may be handed on from a call without one. */
function finite(ms: number | undefined, fallback: number): number {
  return ms === undefined || !Number.isFinite(ms) ? fallback : ms;
}

function cancelled(signal: AbortSignal): CodedError {
  const reason: unknown = signal.reason;
  return isCodedError(reason) ? reason : codedError("CANCELLED", "the call was given up by its caller");
}
