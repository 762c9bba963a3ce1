/**
 * From a typed handler to what grpc-js registers: authenticate, authorize, decode, run, encode, and turn whatever is thrown into a
 * status. Messages are encoded and decoded here, not in grpc-js, so that a bad or oversize message gets a typed answer.
 */
import type { Readable, Writable } from "node:stream";
import type { sendUnaryData, ServerDuplexStream, ServerReadableStream, ServerUnaryCall, ServerWritableStream } from "@grpc/grpc-js";
import { CodedError, codedError } from "iterate/lib";
import { authorize, type Caller, type MethodPolicy } from "./caller.js";
import { OpenCall, type CallContext, type RawCall, type ServerCall } from "./grpc-call.js";
import { Messages } from "./grpc-messages.js";
import { EncodedMessage, type MethodDefinition, type RawHandler } from "./grpc-types.js";
import { checkRequestSize, checkResponseSize } from "./message-limits.js";
import { nameSpanOwner } from "./span-owner.js";
import { toFailure } from "./status.js";

/** What the server lends to every call of one method. */
export interface MethodHost {
  readonly method: MethodDefinition;
  readonly policy: MethodPolicy | undefined;
  readonly maxRequestBytes: number;
  /** What ends a stream at drain: its own end (`finish`), or the server, so that the client opens it elsewhere (`reopen`). */
  readonly drain: "finish" | "reopen";
  readonly draining: AbortSignal;
  /** Deadline of a call that brings none, ms. */
  readonly defaultDeadlineMs: number;
  readonly authenticate: (call: ServerCall) => Caller | Promise<Caller>;
  readonly answerFor: (thrown: unknown) => CodedError;
  /** Counts the call as open; the result is called once with how it ended. */
  readonly open: (call: OpenCall) => (code: "OK" | CodedError["code"]) => void;
}

export type UnaryHandler = (request: unknown, call: CallContext) => unknown;
export type ServerStreamHandler = (request: unknown, call: CallContext) => AsyncIterable<unknown>;
export type ClientStreamHandler = (requests: AsyncIterable<unknown>, call: CallContext) => Promise<unknown>;
export type BidiHandler = (requests: AsyncIterable<unknown>, call: CallContext) => AsyncIterable<unknown>;

export function unaryCall(host: MethodHost, handler: UnaryHandler) {
  return (call: ServerUnaryCall<unknown, unknown>, callback: sendUnaryData<unknown>): void => {
    const open = openCall(host, call);
    const close = host.open(open);
    const timer = call.getDeadline() === Infinity ? deadlineTimer(open) : undefined;
    let isAnswered = false;
    const answer = (failure: CodedError | null, response?: Uint8Array): void => {
      if (isAnswered) return;
      isAnswered = true;
      open.settle();
      clearTimeout(timer);
      close(failure === null ? "OK" : failure.code);
      if (failure === null) callback(null, response);
      else callback(toFailure(failure));
    };
    const fail = (thrown: unknown): void => answer(open.over ?? host.answerFor(thrown));
    const succeed = (response: unknown): void => {
      try {
        answer(null, encodeResponse(host, response));
      } catch (thrown) {
        fail(thrown);
      }
    };
    open.whenOver(() => answer(open.over));
    const run = (caller: Caller): void => {
      try {
        admit(host, open, caller);
        const request = decodeRequest(host, call.request as Buffer);
        nameSpanOwner(request, caller);
        const response = handler(request, open);
        if (response instanceof Promise) response.then(succeed, fail);
        else succeed(response);
      } catch (thrown) {
        fail(thrown);
      }
    };
    authenticated(host, call, run, fail);
  };
}

export function serverStreamCall(host: MethodHost, handler: ServerStreamHandler) {
  return (call: ServerWritableStream<unknown, unknown>): void => {
    streamCall(host, call, call, (open) => {
      const request = decodeRequest(host, call.request as Buffer);
      nameSpanOwner(request, open.caller);
      return pump(host, open, call, handler(request, open));
    });
  };
}

export function bidiCall(host: MethodHost, handler: BidiHandler) {
  return (call: ServerDuplexStream<unknown, unknown>): void => {
    streamCall(host, call, call, (open) => pump(host, open, call, handler(requests(host, open, call), open)));
  };
}

export function rawCall(host: MethodHost, handler: RawHandler<unknown, unknown>) {
  return (call: ServerDuplexStream<unknown, unknown>): void => {
    streamCall(host, call, call, (open) => handler.raw(rawCallOf(host, open, call)));
  };
}

export function clientStreamCall(host: MethodHost, handler: ClientStreamHandler) {
  return (call: ServerReadableStream<unknown, unknown>, callback: sendUnaryData<unknown>): void => {
    const open = openCall(host, call);
    const close = host.open(open);
    let isAnswered = false;
    const answer = (failure: CodedError | null, response?: Uint8Array): void => {
      if (isAnswered) return;
      isAnswered = true;
      open.settle();
      close(failure === null ? "OK" : failure.code);
      if (failure === null) callback(null, response);
      else callback(toFailure(failure));
    };
    const fail = (thrown: unknown): void => answer(open.over ?? host.answerFor(thrown));
    open.whenOver(() => answer(open.over));
    const run = async (caller: Caller): Promise<void> => {
      admit(host, open, caller);
      answer(null, encodeResponse(host, await handler(requests(host, open, call), open)));
    };
    authenticated(host, call, (caller) => void run(caller).catch(fail), fail);
  };
}

/** Runs a stream to its end and closes it with its status. */
function streamCall(host: MethodHost, call: ServerCall, writable: Writable, work: (open: OpenCall) => Promise<void>): void {
  const open = openCall(host, call);
  const close = host.open(open);
  let isEnded = false;
  const end = (failure: CodedError | null): void => {
    if (isEnded) return;
    isEnded = true;
    open.settle();
    close(failure === null ? "OK" : failure.code);
    if (failure === null) writable.end();
    // grpc-js sends the status of an error after what is queued.
    else writable.emit("error", toFailure(failure));
  };
  // The stream's own error comes back to whoever works on it: it has been answered.
  const fail = (thrown: unknown): void => void (isEnded || end(open.over ?? host.answerFor(thrown)));
  open.whenOver(() => end(open.over));
  const run = async (caller: Caller): Promise<void> => {
    admit(host, open, caller);
    await work(open);
    end(host.drain === "reopen" && host.draining.aborted ? drainingError() : null);
  };
  authenticated(host, call, (caller) => void run(caller).catch(fail), fail);
}

/** Why a drained stream ends: the client opens it again, on another server, at once. */
function drainingError(): CodedError {
  return new CodedError("UNAVAILABLE", "the server is draining; open the stream again", { retryAfterMs: 0 });
}

function openCall(host: MethodHost, call: ServerCall): OpenCall {
  return new OpenCall(
    call,
    host.draining,
    host.method.responseStream || host.method.requestStream ? Infinity : host.defaultDeadlineMs,
  );
}

/** grpc-js ends a call at the deadline the client sent; this ends one that sent none. */
function deadlineTimer(open: OpenCall): NodeJS.Timeout {
  return setTimeout(
    () => open.abort(codedError("DEADLINE_EXCEEDED", "the call brought no deadline and took longer than the server's")),
    open.deadlineMs,
  );
}

function authenticated(host: MethodHost, call: ServerCall, run: (caller: Caller) => void, fail: (thrown: unknown) => void): void {
  let caller: Caller | Promise<Caller>;
  try {
    caller = host.authenticate(call);
  } catch (thrown) {
    return fail(thrown);
  }
  if (caller instanceof Promise) caller.then(run, fail);
  else run(caller);
}

function admit(host: MethodHost, open: OpenCall, caller: Caller): void {
  authorize(host.method.path, host.policy, caller);
  open.caller = caller;
  if (open.over !== null) throw open.over;
}

function decodeRequest(host: MethodHost, bytes: Buffer): unknown {
  checkRequestSize(host.method.path, bytes.length, host.maxRequestBytes);
  try {
    return host.method.requestDeserialize(bytes);
  } catch {
    throw codedError("INVALID_INPUT", `${host.method.path}: the request is not a message of its type`);
  }
}

function encodeResponse(host: MethodHost, response: unknown): Uint8Array {
  const bytes = response instanceof EncodedMessage ? response.encoded() : host.method.responseSerialize(response);
  checkResponseSize(host.method.path, bytes.length);
  return bytes;
}

/** The decoded requests of a stream; nothing is read before the handler asks. They end at a drain, so the handler finishes what it has. */
async function* requests(host: MethodHost, open: OpenCall, call: Readable): AsyncIterable<unknown> {
  const messages = new Messages<Buffer>(call, { failure: (error) => host.answerFor(error), abandon: () => {} });
  if (host.drain === "reopen") open.whenDraining(() => messages.stop());
  const forget = open.whenOver(() => messages.stop(open.over));
  try {
    for await (const bytes of messages) yield decodeRequest(host, bytes);
  } finally {
    forget();
  }
}

const stopped = { done: true, value: undefined } as const;

/** Writes what `responses` yields, one at a time and no faster than the client takes it; a drain ends a stream of answers alone. */
async function pump(host: MethodHost, open: OpenCall, call: Writable, responses: AsyncIterable<unknown>): Promise<void> {
  const iterator = responses[Symbol.asyncIterator]();
  let isStopped = false;
  let wake: () => void = () => {};
  const stop = (): void => {
    isStopped = true;
    wake();
  };
  const forget = open.whenOver(stop);
  if (host.drain === "reopen" && !host.method.requestStream) open.whenDraining(stop);
  let isFinished = false;
  try {
    while (!isStopped) {
      // One promise per message: racing each against a promise that lives as long as the stream would keep them all alive.
      const next = await new Promise<IteratorResult<unknown>>((resolve, reject) => {
        wake = () => resolve(stopped);
        iterator.next().then(resolve, (error: Error) => {
          isFinished = true;
          reject(error);
        });
      });
      if (isStopped) break;
      if (next.done === true) {
        isFinished = true;
        break;
      }
      const { value } = next;
      const sent = value instanceof EncodedMessage ? () => value.sent() : undefined;
      if (!call.write(encodeResponse(host, value), sent)) await flushed(open, call);
    }
    if (open.over !== null) throw open.over;
  } finally {
    forget();
    // The generator may be waiting for something slow: it is told to stop but not waited for.
    if (!isFinished) void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

/** Settles when what is queued has gone to the wire, or the call is over. */
function flushed(open: OpenCall, call: Writable): Promise<void> {
  if (!call.writableNeedDrain || open.over !== null) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      call.off("drain", done);
      forget();
      resolve();
    };
    const forget = open.whenOver(done);
    call.on("drain", done);
  });
}

function rawCallOf(host: MethodHost, open: OpenCall, call: ServerDuplexStream<unknown, unknown>): RawCall<unknown, unknown> {
  return {
    context: open,
    onRequest: (listener) => {
      let isEnded = false;
      const end = (): void => {
        if (isEnded) return;
        isEnded = true;
        listener(null);
      };
      call.on("data", (bytes: Buffer) => {
        if (isEnded || open.over !== null) return;
        try {
          listener(decodeRequest(host, bytes));
        } catch (thrown) {
          open.abort(host.answerFor(thrown));
        }
      });
      call.on("end", end);
      open.whenOver(end);
      if (host.drain === "reopen") open.whenDraining(end);
    },
    pause: () => void call.pause(),
    resume: () => void call.resume(),
    send: (response) => open.over === null && call.write(encodeResponse(host, response)),
    drained: () => flushed(open, call),
  };
}
