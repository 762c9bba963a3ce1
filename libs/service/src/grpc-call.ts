/** What a handler knows of its call: who calls, how long there is, and when to stop. */
import type { Deadline, Metadata } from "@grpc/grpc-js";
import type { CodedError } from "iterate/lib";
import { codedError } from "iterate/lib";
import type { Caller } from "./caller.js";

/** What calls of all four kinds have. */
export interface ServerCall {
  readonly metadata: Metadata;
  getDeadline(): Deadline;
  getPath(): string;
  getPeer(): string;
  once(event: "cancelled", listener: () => void): unknown;
}

export interface CallContext {
  readonly caller: Caller;
  /**
   * Aborts when nobody waits for the answer any more, with a CodedError as its reason: CANCELLED, DEADLINE_EXCEEDED, or UNAVAILABLE
   * when the server's drain is at its end.
   */
  readonly signal: AbortSignal;
  /** Milliseconds left until the deadline, never below 0; Infinity when there is none. Pass it on to the calls this one makes. */
  readonly deadlineMs: number;
  /** Aborts when the server begins to drain: finish what is begun, take no more. */
  readonly draining: AbortSignal;
  readonly metadata: Metadata;
}

/** A bidirectional call for a handler made with `raw`. */
export interface RawCall<Request, Response> {
  readonly context: CallContext;
  /** Called for each request, then once with `null` when the client has sent its last or the server drains. Set it at once. */
  onRequest(listener: (request: Request | null) => void): void;
  /** Stops and resumes reading, so that the client is slowed by the wire. */
  pause(): void;
  resume(): void;
  /** Queues a response; false when the client is slower than the answers: wait for `drained`. */
  send(response: Response): boolean;
  /** Settles when the queue is short again or the call is over. */
  drained(): Promise<void>;
}

/** The state of one call; created for every call, so everything costly is lazy. */
export class OpenCall implements CallContext {
  readonly #call: ServerCall;
  readonly #draining: AbortSignal;
  readonly #deadlineAt: number;
  #caller: Caller | null = null;
  #controller: AbortController | null = null;
  #over: CodedError | null = null;
  #isSettled = false;
  #onOver: Set<() => void> | null = null;
  #onDrain: Set<() => void> | null = null;

  constructor(call: ServerCall, draining: AbortSignal, defaultDeadlineMs: number) {
    this.#call = call;
    this.#draining = draining;
    const deadline = call.getDeadline();
    const sent = typeof deadline === "number" ? deadline : deadline.getTime();
    this.#deadlineAt = Number.isFinite(sent) ? sent : Date.now() + defaultDeadlineMs;
    // grpc-js emits this for a peer that left, for a deadline that passed, and after the end of every call.
    call.once("cancelled", () => {
      if (this.#isSettled) return;
      const isLate = this.deadlineMs <= timerSlackMs;
      this.abort(
        isLate ? codedError("DEADLINE_EXCEEDED", "the call's deadline passed") : codedError("CANCELLED", "the caller went away"),
      );
    });
  }

  get caller(): Caller {
    return this.#caller!;
  }

  set caller(caller: Caller) {
    this.#caller = caller;
  }

  get deadlineMs(): number {
    return this.#deadlineAt === Infinity ? Infinity : Math.max(0, this.#deadlineAt - Date.now());
  }

  get metadata(): Metadata {
    return this.#call.metadata;
  }

  get draining(): AbortSignal {
    return this.#draining;
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#over !== null) this.#controller.abort(this.#over);
    }
    return this.#controller.signal;
  }

  /** Why nobody waits any more; null while someone does. */
  get over(): CodedError | null {
    return this.#over;
  }

  /** The call is answered: what follows on the wire is no cancellation. */
  settle(): void {
    this.#isSettled = true;
    this.#onOver = null;
    this.#onDrain = null;
  }

  /** Ends the call from outside its handler. */
  abort(reason: CodedError): void {
    if (this.#isSettled || this.#over !== null) return;
    this.#over = reason;
    this.#controller?.abort(reason);
    for (const listener of [...(this.#onOver ?? [])]) listener();
  }

  /** Runs `listener` once when the call is over, or now. The result takes it back. */
  whenOver(listener: () => void): () => void {
    if (this.#over === null) (this.#onOver ??= new Set()).add(listener);
    else listener();
    return () => void this.#onOver?.delete(listener);
  }

  /** Runs `listener` once when the server begins to drain, or now. */
  whenDraining(listener: () => void): void {
    if (this.#draining.aborted) listener();
    else (this.#onDrain ??= new Set()).add(listener);
  }

  /** The server begins to drain. */
  drain(): void {
    for (const listener of [...(this.#onDrain ?? [])]) listener();
  }
}

/** A timer may fire this much before the wall clock says so. */
const timerSlackMs = 5;
