/**
 * Follows a context over as many connections as it takes. `connecting` → `following` → (lost) `waiting` → `connecting`; the ladder starts
 * again with each frame. It ends when interrupted, with the last event that was wanted, when a failure cannot be retried, when the first
 * connection fails, or with the ladder.
 */
import type { ContextCalls } from "../api/context.js";
import type { EventsFrame } from "../api/session.js";
import { toCodedError, type CodedError } from "../lib/coded-error.js";
import type { IterateConnection } from "../node/connect-iterate.js";
import type { StreamEvent } from "../stream/event.js";

/** Waits between attempts: 250 ms doubled to 8 s, about five minutes in all. */
export const reconnectLadderMs: readonly number[] = [250, 500, 1000, 2000, 4000, ...Array.from({ length: 36 }, () => 8000)];

export interface FollowOptions {
  readonly connect: () => Promise<IterateConnection>;
  readonly project: string;
  readonly context: string;
  /** Absent: from the head at the first connection. */
  readonly afterOffset?: number;
  readonly types?: readonly string[];
  readonly includeEphemeral?: boolean;
  /** Events after which it ends; absent: never. */
  readonly limit?: number;
  /** Called once, with the context, when it is followed for the first time. */
  readonly onStart?: (context: Pick<ContextCalls, "readEvents">) => Promise<void>;
  readonly onEvents: (events: readonly StreamEvent[]) => Promise<void>;
  /** Called before each wait. */
  readonly onLost: (error: CodedError, waitMs: number, afterOffset: number | undefined) => void;
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly signal: AbortSignal;
}

/** Resolves when interrupted or after `limit` events. Throws the failure that ended it. Delivers each event once, in order. */
export async function follow(options: FollowOptions): Promise<void> {
  const place: Place = { afterOffset: options.afterOffset, left: options.limit ?? Infinity, failures: 0, hasFollowed: false };
  while (!options.signal.aborted && place.left > 0) {
    try {
      await followOnce(options, place);
    } catch (thrown) {
      const error = toCodedError(thrown);
      const waitMs = reconnectLadderMs[place.failures];
      if (options.signal.aborted || place.left === 0) return;
      if (!error.retryable || !place.hasFollowed || waitMs === undefined) throw error;
      place.failures += 1;
      options.onLost(error, waitMs, place.afterOffset);
      await options.pause(waitMs, options.signal);
    }
  }
}

interface Place {
  afterOffset: number | undefined;
  /** Events still wanted. */
  left: number;
  failures: number;
  hasFollowed: boolean;
}

async function followOnce(options: FollowOptions, place: Place): Promise<void> {
  const { connect, project, context, types, includeEphemeral, onStart, onEvents, signal } = options;
  const interrupted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  using connection = await unlessInterrupted(connect(), interrupted);
  if (connection === undefined) return;
  const { promise: satisfied, resolve: satisfy } = Promise.withResolvers<void>();
  let delivering: Promise<void> = Promise.resolve();
  const onFrame = (frame: EventsFrame): Promise<void> => (delivering = deliver(frame));
  const deliver = async ({ events, scannedThroughOffset }: EventsFrame): Promise<void> => {
    if (signal.aborted || place.left === 0) return;
    const wanted = events.slice(0, place.left);
    if (wanted.length > 0) await onEvents(wanted);
    place.left -= wanted.length;
    place.afterOffset = scannedThroughOffset;
    place.failures = 0;
    if (place.left === 0) satisfy();
  };
  using handle = connection.session.projects.get(project).cd(context);
  using subscription = await handle.subscribe({
    onEvents: onFrame,
    ...(place.afterOffset === undefined ? {} : { afterOffset: place.afterOffset }),
    ...(types === undefined ? {} : { types }),
    ...(includeEphemeral === undefined ? {} : { includeEphemeral }),
  });
  // Nothing waits for it, and following does not fail with it.
  if (!place.hasFollowed) onStart?.(handle).catch(() => undefined);
  place.hasFollowed = true;
  try {
    await Promise.race([subscription.closed(), interrupted, satisfied]);
  } finally {
    // The next connection starts behind the frame that a slow reader is still taking.
    if (!signal.aborted) await delivering;
  }
}

/** The connection, or nothing when the person does not wait for it; it is then closed as soon as it is there. */
async function unlessInterrupted(
  connecting: Promise<IterateConnection>,
  interrupted: Promise<void>,
): Promise<IterateConnection | undefined> {
  const connection = (await Promise.race([connecting, interrupted])) ?? undefined;
  if (connection === undefined)
    connecting.then(
      (late) => late[Symbol.dispose](),
      () => undefined,
    );
  return connection;
}
