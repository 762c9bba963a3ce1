/**
 * One stream of appends that everything in this process shares: what is asked in one turn of the event loop travels in one message,
 * and answers come back in order. A broken stream fails what is open on it with UNAVAILABLE: each append may or may not have landed,
 * which its append id or keys decide when it is sent again.
 */
import type {
  AppendOutcome,
  AppendStreamItem,
  AppendStreamRequest,
  AppendStreamResponse,
} from "@iterate-platform/proto/iterate/context/v1/context";
import type { BidiCall } from "@iterate-platform/service/grpc-client";
import { fromStatus } from "@iterate-platform/service/status";
import { CodedError, codedError, isCodedError } from "iterate/lib";
import type { AppendReceipt } from "./contract.js";

/** Items of one message, and bytes at which it is closed. */
const maxItems = 256;
const maxMessageBytes = 4 * 1024 * 1024;
/** Appends that may be open or waiting; one more is OVERLOADED. */
const maxOpen = 4_096;

type Call = BidiCall<AppendStreamRequest, AppendStreamResponse>;

interface Asked {
  readonly item: AppendStreamItem;
  readonly bytes: number;
  readonly resolve: (receipts: readonly AppendReceipt[]) => void;
  readonly reject: (error: CodedError) => void;
}

export class AppendLane {
  readonly #open: () => Call;
  #call: { readonly call: Call; readonly sent: Asked[] } | undefined;
  #waiting: Asked[] = [];
  #openCount = 0;
  #isSending = false;

  /** @param open opens a stream; called again whenever one has ended and there is something to append. */
  constructor(open: () => Call) {
    this.#open = open;
  }

  /** @throws CodedError as the log answers; UNAVAILABLE when the stream broke; OVERLOADED beyond 4,096 open appends. */
  append(item: AppendStreamItem): Promise<readonly AppendReceipt[]> {
    if (this.#openCount >= maxOpen) {
      return Promise.reject(new CodedError("OVERLOADED", `${maxOpen} appends are open already`, { retryAfterMs: 100 }));
    }
    this.#openCount += 1;
    const asked = new Promise<readonly AppendReceipt[]>((resolve, reject) => {
      this.#waiting.push({ item, bytes: roughBytes(item), resolve, reject });
    });
    if (!this.#isSending) {
      this.#isSending = true;
      setImmediate(() => void this.#send());
    }
    return asked.finally(() => (this.#openCount -= 1));
  }

  /** Ends the stream; what is open on it is answered first or fails. */
  close(): void {
    this.#call?.call.end();
    this.#call = undefined;
  }

  async #send(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#takeBatch();
        const { call, sent } = (this.#call ??= this.#openCall());
        sent.push(...batch);
        await call.send({ items: batch.map(({ item }) => item), stopOnError: false });
      }
    } catch (error) {
      this.#fail(error, this.#waiting.splice(0));
    } finally {
      this.#isSending = false;
    }
  }

  #takeBatch(): Asked[] {
    let bytes = 0;
    let count = 0;
    for (const asked of this.#waiting) {
      if (count === maxItems || (count > 0 && bytes + asked.bytes > maxMessageBytes)) break;
      bytes += asked.bytes;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  #openCall(): { readonly call: Call; readonly sent: Asked[] } {
    const opened = { call: this.#open(), sent: [] as Asked[] };
    void this.#receive(opened);
    return opened;
  }

  async #receive(opened: { readonly call: Call; readonly sent: Asked[] }): Promise<void> {
    let reason: unknown;
    try {
      for await (const { outcomes } of opened.call.responses) {
        for (const outcome of outcomes) settle(opened.sent.shift(), outcome);
      }
    } catch (error) {
      reason = error;
    }
    if (this.#call === opened) this.#call = undefined;
    this.#fail(reason, opened.sent.splice(0));
  }

  #fail(reason: unknown, open: readonly Asked[]): void {
    const error =
      isCodedError(reason) && !isStreamEnd(reason)
        ? reason
        : new CodedError("UNAVAILABLE", "the stream of appends broke before it was answered", { cause: reason });
    for (const asked of open) asked.reject(error);
  }
}

/** Close enough to keep messages apart: bodies are what weighs. */
function roughBytes({ append }: AppendStreamItem): number {
  return (append?.events ?? []).reduce(
    (sum, { payload, metadata }) => sum + 512 + (payload?.length ?? 0) + (metadata?.length ?? 0),
    1_024,
  );
}

/** A stream ended by its own deadline or by the peer's shutdown says nothing about an append. */
function isStreamEnd(error: CodedError): boolean {
  return error.code === "DEADLINE_EXCEEDED" || error.code === "CANCELLED";
}

function settle(asked: Asked | undefined, { outcome }: AppendOutcome): void {
  if (asked === undefined) return;
  if (outcome?.$case === "response") {
    const { receipts } = outcome.value;
    asked.resolve(receipts.map(({ offset, createdAtUs, existing }) => ({ offset: Number(offset), createdAtUs, existing })));
  } else if (outcome?.$case === "error") asked.reject(fromStatus(outcome.value, "context"));
  else asked.reject(codedError("INTERNAL", "the context service answered an append with nothing"));
}
