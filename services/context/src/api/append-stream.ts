/**
 * One AppendStream call. Appends are started in the order they come and run side by side; their outcomes leave in the same order,
 * all that are known in one message per turn of the event loop, since messages are what a stream costs. While the window is full
 * nothing is read, so a client is slowed by the wire and never refused for its haste.
 *
 * An append sent with `stop_on_error` holds back what follows it until its own outcome is known: when it is refused, the stream ends
 * after that outcome and the rest was not tried.
 */
import type {
  AppendOutcome,
  AppendStreamItem,
  AppendStreamRequest,
  AppendStreamResponse,
} from "@iterate-platform/proto/iterate/context/v1/context";
import type { Status } from "@iterate-platform/proto/google/rpc/status";
import type { Caller } from "@iterate-platform/service/caller";
import type { RawCall } from "@iterate-platform/service/grpc-server";
import { toStatus } from "@iterate-platform/service/status";
import { withRemoteParent, withSpan } from "@iterate-platform/service/tracing";
import { codedError, isCodedError } from "iterate/lib";
import { writerOf } from "../caller/writer.js";
import type { AppendReceipt } from "../log/contract.js";
import { commandOf, responseOf } from "./append-input.js";
import type { AppendParts } from "./append-parts.js";

/** Appends and bytes of bodies that may be open on one stream before the server stops reading. */
export const streamWindow = { appends: 4_096, bytes: 4 * 1_048_576 } as const;

type Call = RawCall<AppendStreamRequest, AppendStreamResponse>;

/** One append of the stream, from its arrival until its outcome has left. */
interface Slot {
  readonly item: AppendStreamItem;
  readonly stopsOnError: boolean;
  readonly bytes: number;
  outcome: AppendOutcome | null;
}

export function serveAppendStream(call: Call, parts: AppendParts): Promise<void> {
  return new AppendStreamCall(call, parts).done;
}

class AppendStreamCall {
  readonly done: Promise<void>;
  readonly #call: Call;
  readonly #parts: AppendParts;
  readonly #caller: Caller;
  readonly #traceparent: string | null;
  /** Open appends, in order: those before `#started` are under way or known. */
  #slots: Slot[] = [];
  #started = 0;
  #openBytes = 0;
  #isPaused = false;
  #isStarting = false;
  #isFlushing = false;
  /** No request follows. */
  #isLast = false;
  /** An append that stops the stream was refused. */
  #isStopped = false;
  /** A slot that holds back what follows it. */
  #barrier: Slot | null = null;
  #end!: () => void;

  constructor(call: Call, parts: AppendParts) {
    this.#call = call;
    this.#parts = parts;
    this.#caller = call.context.caller;
    this.#traceparent = parts.traceparent();
    this.done = new Promise((resolve) => (this.#end = resolve));
    call.onRequest((request) => {
      if (request === null) this.#isLast = true;
      else if (!this.#isStopped) this.#take(request);
      if (!this.#isStarting) void this.#start();
      this.#endWhenDone();
    });
  }

  #take({ items, stopOnError }: AppendStreamRequest): void {
    for (const item of items) {
      const bytes = sizeOf(item);
      this.#slots.push({ item, stopsOnError: stopOnError, bytes, outcome: null });
      this.#openBytes += bytes;
    }
    if (!this.#isPaused && this.#isFull()) {
      this.#isPaused = true;
      this.#call.pause();
    }
  }

  #isFull(): boolean {
    return this.#slots.length >= streamWindow.appends || this.#openBytes >= streamWindow.bytes;
  }

  /** Starts what may be started. Waits only for a token that is to be verified, so that order is kept. */
  async #start(): Promise<void> {
    this.#isStarting = true;
    while (this.#started < this.#slots.length && this.#barrier === null) {
      const slot = this.#slots[this.#started]!;
      this.#started += 1;
      if (slot.stopsOnError) this.#barrier = slot;
      try {
        const caller = this.#callerOf(slot.item);
        this.#append(slot, caller instanceof Promise ? await caller : caller);
      } catch (refusal) {
        this.#settle(slot, { outcome: { $case: "error", value: this.#statusOf(refusal) } });
      }
    }
    this.#isStarting = false;
  }

  /** The call's caller, or the code whose token came with the append. */
  #callerOf({ execution: token }: AppendStreamItem): Caller | Promise<Caller> {
    if (token === "") return this.#caller;
    const claims = this.#parts.verifyExecution(token);
    return claims instanceof Promise
      ? claims.then((execution) => ({ service: this.#caller.service, execution }))
      : { service: this.#caller.service, execution: claims };
  }

  #append(slot: Slot, caller: Caller): void {
    const { append, traceparent } = slot.item;
    if (append === undefined) throw codedError("INVALID_INPUT", "an item of the stream holds no append", { field: "items.append" });
    const command = commandOf(append, writerOf(caller, this.#parts.newChain), traceparent === "" ? this.#traceparent : traceparent);
    // The stream's own span is nobody's work: an append that says whose it is gets a span there.
    const { appender } = this.#parts;
    const attributes = { owner: command.address.owner, context: command.address.path };
    const appending =
      traceparent === ""
        ? appender.append(command)
        : withRemoteParent(traceparent, () => withSpan("append", { kind: "server", attributes }, () => appender.append(command)));
    appending.then(
      (receipts: readonly AppendReceipt[]) => this.#settle(slot, { outcome: { $case: "response", value: responseOf(receipts) } }),
      (error: unknown) => this.#settle(slot, { outcome: { $case: "error", value: this.#statusOf(error) } }),
    );
  }

  #settle(slot: Slot, outcome: AppendOutcome): void {
    slot.outcome = outcome;
    if (this.#barrier === slot) {
      if (outcome.outcome?.$case === "error") this.#stopAfter(slot);
      else {
        this.#barrier = null;
        if (!this.#isStarting) void this.#start();
      }
    }
    if (this.#isFlushing || this.#slots[0]?.outcome == null) return;
    this.#isFlushing = true;
    setImmediate(() => void this.#flush());
  }

  /** Nothing that came after `slot` is tried. */
  #stopAfter(slot: Slot): void {
    this.#isStopped = true;
    this.#slots.length = this.#slots.indexOf(slot) + 1;
    this.#started = this.#slots.length;
  }

  async #flush(): Promise<void> {
    let known = 0;
    while (known < this.#slots.length && this.#slots[known]!.outcome !== null) known += 1;
    const outcomes: AppendOutcome[] = [];
    for (let index = 0; index < known; index += 1) {
      const slot = this.#slots[index]!;
      outcomes.push(slot.outcome!);
      this.#openBytes -= slot.bytes;
    }
    this.#slots = this.#slots.slice(known);
    this.#started -= known;
    // A client that does not read its answers is not read from either.
    if (!this.#call.send({ outcomes })) await this.#call.drained();
    this.#isFlushing = false;
    if (this.#isPaused && !this.#isFull()) {
      this.#isPaused = false;
      this.#call.resume();
    }
    if (this.#slots[0]?.outcome != null) {
      this.#isFlushing = true;
      setImmediate(() => void this.#flush());
    }
    this.#endWhenDone();
  }

  /** What the appender throws is coded; anything else is a fault, which is reported and does not leave the process. */
  #statusOf(error: unknown): Status {
    if (isCodedError(error)) return toStatus(error);
    this.#parts.onFault(error);
    return toStatus(codedError("INTERNAL", "the append failed"));
  }

  #endWhenDone(): void {
    if ((this.#isLast || this.#isStopped) && this.#slots.length === 0 && !this.#isFlushing) this.#end();
  }
}

function sizeOf({ append }: AppendStreamItem): number {
  let bytes = 0;
  for (const { payload, metadata } of append?.events ?? []) bytes += (payload?.length ?? 0) + (metadata?.length ?? 0);
  return bytes;
}
