/**
 * One client's subscription to a context: frames in order, one call at a time, for as long as the client and its socket live. A lost
 * context service is waited for and the log read on from the last answered place, so the client sees neither gap nor repetition.
 */
import type { EventsFrame } from "iterate/api";
import { codedError, isCodedError } from "iterate/lib";
import { LongAnswer, type LongAnswerOptions } from "./long-answer.js";

export type Follow = (afterOffset: number, signal: AbortSignal) => AsyncIterable<EventsFrame>;

export interface SubscriptionOptions extends LongAnswerOptions {
  readonly follow: Follow;
  readonly afterOffset: number;
  /** Tell the client where it starts before anything happens, so that it can go on from there after a lost connection. */
  readonly tellStart: boolean;
  /** Answers once the client has taken the frame. */
  readonly deliver: (frame: EventsFrame) => Promise<void>;
  /** Resolves after the time, or at once when the signal aborts. */
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** Waits between attempts to go on, milliseconds; then the subscription ends with UNAVAILABLE and the client may resume. */
export const resumeLadderMs = [250, 500, 1000, 2000, 4000, 8000, 8000] as const;

export class Subscription extends LongAnswer {
  constructor(options: SubscriptionOptions) {
    super(options, (signal) => run(options, signal));
  }
}

async function run(options: SubscriptionOptions, signal: AbortSignal): Promise<void> {
  let after = options.afterOffset;
  let failures = 0;
  const gone = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  let isStartTold = !options.tellStart;
  while (!signal.aborted) {
    try {
      if (!isStartTold) await delivered(options, { events: [], scannedThroughOffset: after, atHead: false }, gone);
      isStartTold = true;
      for await (const frame of options.follow(after, signal)) {
        await delivered(options, frame, gone);
        if (signal.aborted) return;
        after = frame.scannedThroughOffset;
        failures = 0;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof CallbackFailure) throw codedError("CODE_FAILED", `the callback failed: ${error.message}`);
      if (!isCodedError(error) || !error.retryable) throw error;
    }
    const wait = resumeLadderMs[failures];
    if (wait === undefined)
      throw codedError(
        "UNAVAILABLE",
        `the log could not be followed in ${failures} attempts; subscribe again after offset ${after}`,
        { afterOffset: after },
      );
    failures += 1;
    await options.pause(wait, signal);
  }
}

class CallbackFailure extends Error {}

/** A client that never answers ends with its socket, which has a heartbeat. */
async function delivered(options: SubscriptionOptions, frame: EventsFrame, gone: Promise<void>): Promise<void> {
  try {
    await Promise.race([options.deliver(frame), gone]);
  } catch (error) {
    throw new CallbackFailure(error instanceof Error ? error.message : String(error));
  }
}
