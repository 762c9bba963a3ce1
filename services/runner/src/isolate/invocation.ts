/**
 * One invocation as the supervisor keeps it: what it may still use and where its output goes. The isolate holds only `secret`, which
 * opens one host session while the invocation lasts and nothing afterwards.
 */
import { randomBytes } from "node:crypto";
import type { CodedError } from "iterate/lib";
import { codedError } from "iterate/lib";
import type { InvocationLimits, IsolateLimits } from "./limits.js";
import { LogBudget, type LogRecord } from "./log-record.js";

/** A call of the code to the platform; all of it is hostile input, `args` unread. */
export interface HostCall {
  /** From 1, in the order they arrived. */
  readonly callId: number;
  readonly method: string;
  /** JSON text, not checked. */
  readonly args: Uint8Array;
  readonly path: string;
}

export interface HostReply {
  readonly callId: number;
  readonly succeeded: boolean;
  /** JSON text of the value, or of `{code, message, data}`. */
  readonly body: Uint8Array;
}

/** Where an invocation's output goes. */
export interface InvocationSink {
  hostCall(call: HostCall): void;
  log(record: LogRecord): void;
  /** JSON text, not checked. Resolves once more may come. */
  frame(bytes: Uint8Array): Promise<void> | void;
}

/** The one way into the platform that an invocation has. */
export interface HostSession {
  close(reason: string): void;
}

type Answer = (reply: HostReply) => void;

export class Invocation {
  readonly id: string;
  /** Number in its process. */
  readonly ordinal: number;
  readonly secret = randomBytes(24).toString("base64url");
  readonly limits: InvocationLimits;
  /** Resolves once the process has written the invocation's last record. */
  readonly drained: Promise<void>;
  readonly #table: IsolateLimits;
  readonly #sink: InvocationSink;
  readonly #logs: LogBudget;
  readonly #over = new AbortController();
  readonly #deadline: NodeJS.Timeout;
  #markDrained!: () => void;
  #session: HostSession | undefined;
  readonly #unanswered = new Map<number, Answer>();
  #hostCalls = 0;
  #hostCallBytes = 0;
  #outputBytes = 0;

  constructor(args: { id: string; ordinal: number; limits: InvocationLimits; table: IsolateLimits; sink: InvocationSink }) {
    this.id = args.id;
    this.ordinal = args.ordinal;
    this.limits = args.limits;
    this.#table = args.table;
    this.#sink = args.sink;
    this.#logs = new LogBudget(args.table);
    this.drained = new Promise((resolve) => (this.#markDrained = resolve));
    const { deadlineMs } = this.limits;
    this.#deadline = setTimeout(
      () => this.end(codedError("ISOLATE_DEADLINE", `The invocation did not end within ${deadlineMs} ms.`)),
      deadlineMs,
    );
  }

  /** Aborts once the invocation is over; the reason is the error it ended with. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** The first end counts. Afterwards the secret opens nothing and an open session is closed. */
  end(error: CodedError = codedError("CANCELLED", "The invocation is over.")): void {
    if (this.signal.aborted) return;
    clearTimeout(this.#deadline);
    this.#over.abort(error);
    this.#session?.close(error.message);
    this.#markDrained();
  }

  /** False when the invocation is over or has its session already. */
  open(session: HostSession): boolean {
    if (this.signal.aborted || this.#session !== undefined) return false;
    this.#session = session;
    return true;
  }

  /** Host calls that await a reply. */
  get unanswered(): number {
    return this.#unanswered.size;
  }

  /** Passes a call on; `answer` is called at most once. One call too many ends the invocation with QUOTA. */
  hostCall(call: Omit<HostCall, "callId">, answer: Answer): void {
    if (this.signal.aborted) return;
    if (this.#hostCalls >= this.limits.hostCalls) {
      this.end(codedError("QUOTA", `The invocation made more than ${this.limits.hostCalls} host calls.`));
      return;
    }
    this.#hostCallBytes += call.args.byteLength;
    if (this.#hostCallBytes > this.#table.hostCallTotalBytes) {
      this.end(codedError("QUOTA", `The invocation sent more than ${this.#table.hostCallTotalBytes} bytes in host calls.`));
      return;
    }
    const callId = ++this.#hostCalls;
    this.#unanswered.set(callId, answer);
    this.#sink.hostCall({ callId, ...call });
  }

  /** A reply to a call that was answered already, or never made, goes nowhere. */
  reply(reply: HostReply): void {
    const answer = this.#unanswered.get(reply.callId);
    this.#unanswered.delete(reply.callId);
    answer?.(reply);
  }

  log(record: LogRecord): void {
    const kept = this.#logs.take(record);
    if (kept !== undefined) this.#sink.log(kept);
  }

  /** One frame of the result; one byte too many ends the invocation with ISOLATE_OUTPUT. */
  async frame(bytes: Uint8Array): Promise<void> {
    this.#outputBytes += bytes.byteLength;
    if (this.#outputBytes > this.#table.outputBytes) {
      this.end(codedError("ISOLATE_OUTPUT", `The invocation answered more than ${this.#table.outputBytes} bytes.`));
    }
    this.signal.throwIfAborted();
    await this.#sink.frame(bytes);
  }

  /** Called when the process says that it has written the last record. */
  markDrained(): void {
    this.#markDrained();
  }
}
