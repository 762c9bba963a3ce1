/** The context service over gRPC. */
import { setTimeout as pause } from "node:timers/promises";
import { ContextServiceClient } from "@iterate-platform/proto/iterate/context/v1/context";
import { FeedServiceClient } from "@iterate-platform/proto/iterate/context/v1/feed";
import type { Event, EventInput } from "@iterate-platform/proto/iterate/type/v1/event";
import { ContextCalls } from "@iterate-platform/service/context-calls";
import { createClient, type CallOptions } from "@iterate-platform/service/grpc-client";
import { uuidv7 } from "@iterate-platform/service/ids";
import type { Trust } from "@iterate-platform/service/trust";
import { codedError, isCodedError } from "iterate/lib";
import type { ContextKey } from "../delivery/contract.js";
import { AppendLane } from "./append-lane.js";
import type { AppendReceipt, CallScope, ContextDescription, ContextLog, FeedPage, LogPage, SubscriptionFloor } from "./contract.js";

/** An append is sent again after these waits when the service is away for a moment; the append id makes that safe. */
const appendRetriesMs = [50, 200, 800];
/** Bound of one append; beyond it its outcome is found by its id or keys. */
const appendMs = 30_000;
const feedPage = 500;
/** Bound of one call of an expression: longer than the longest wait it may make. */
const callMs = 150_000;
/** A wait's call outlives the wait by this much. */
const waitGraceMs = 5_000;

export class GrpcContextLog implements ContextLog {
  readonly #context;
  readonly #feed;
  readonly #lane: AppendLane;

  constructor(url: string, trust: Trust) {
    this.#context = createClient(ContextServiceClient, url, { trust, audience: "context" });
    this.#feed = createClient(FeedServiceClient, url, { trust, audience: "context" });
    this.#lane = new AppendLane(() => this.#context.appendStream());
  }

  close(): void {
    this.#lane.close();
    this.#context.close();
    this.#feed.close();
  }

  calls(context: ContextKey, scope: CallScope): ContextCalls {
    return new ContextCalls(this.#context, { ...context }, { ...options(scope), deadlineMs: callMs });
  }

  async describe(context: ContextKey, scope: CallScope = {}): Promise<ContextDescription> {
    const { headOffset, lastControl, subscriptions, config, openRuns, retention, projectSlug } =
      await this.#context.describeContext({ context: { ...context } }, options(scope));
    return {
      headOffset: Number(headOffset),
      lastControl: Number(lastControl),
      subscriptions,
      config: config ?? null,
      openRuns,
      wantsFloors: retention !== undefined,
      projectSlug,
    };
  }

  async read(
    context: ContextKey,
    from: { after: number; limit: number; types: readonly string[]; includeEphemeral?: boolean },
    scope: CallScope = {},
  ): Promise<LogPage> {
    const page = await this.#context.readEvents(
      {
        context: { ...context },
        afterOffset: BigInt(from.after),
        limit: from.limit,
        types: [...from.types],
        includeEphemeral: from.includeEphemeral ?? false,
      },
      options(scope),
    );
    return {
      events: page.events,
      scannedThrough: Number(page.scannedThroughOffset),
      atHead: page.atHead,
      ephemeralsIncluded: page.ephemeralsIncluded,
    };
  }

  async append(context: ContextKey, events: readonly EventInput[], scope: CallScope = {}): Promise<readonly AppendReceipt[]> {
    const append = { context: { ...context }, appendId: uuidv7(), events: [...events] };
    const item = { append, execution: scope.execution ?? "", traceparent: scope.traceparent ?? "" };
    for (const waitMs of appendRetriesMs) {
      scope.signal?.throwIfAborted();
      try {
        return await bounded(this.#lane.append(item), scope.signal);
      } catch (error) {
        if (!isCodedError(error) || error.code !== "UNAVAILABLE") throw error;
        await pause(waitMs, undefined, scope.signal === undefined ? {} : { signal: scope.signal });
      }
    }
    return await bounded(this.#lane.append(item), scope.signal);
  }

  async waitForEvent(
    context: ContextKey,
    what: { types: readonly string[]; payload?: Uint8Array; after?: number; timeoutMs: number },
    scope: CallScope = {},
  ): Promise<Event> {
    const { event } = await this.#context.waitForEvent(
      {
        context: { ...context },
        types: [...what.types],
        payload: what.payload === undefined ? undefined : Buffer.from(what.payload),
        afterOffset: what.after === undefined ? undefined : BigInt(what.after),
        timeoutMs: what.timeoutMs,
      },
      { ...options(scope), deadlineMs: what.timeoutMs + waitGraceMs },
    );
    if (event === undefined) throw codedError("INTERNAL", "the context service answered a wait without an event");
    return event;
  }

  async feed(partition: number, after: string, scope: CallScope = {}): Promise<FeedPage> {
    const page = await this.#feed.listCommits({ partition, after, limit: feedPage }, options(scope));
    return {
      next: page.next,
      atHead: page.atHead,
      commits: page.commits.map((commit) => ({
        owner: commit.context?.owner ?? "",
        path: commit.context?.path ?? "",
        partition: commit.partition,
        lastOffset: Number(commit.lastOffset),
        lastControl: Number(commit.lastControl),
      })),
    };
  }

  async reportFloors(partition: number, floors: readonly SubscriptionFloor[], scope: CallScope = {}): Promise<void> {
    const messages = floors.map(({ owner, path, name, configuredAt, resumedAt, floor }) => ({
      context: { owner, path },
      name,
      configuredAtOffset: BigInt(configuredAt),
      resumedAtOffset: BigInt(resumedAt),
      floorOffset: BigInt(floor),
    }));
    await this.#feed.reportFloors({ partition, floors: messages }, options(scope));
  }
}

/** The lane answers in its own time; whoever waits does not wait for ever, nor after it was told to stop. */
async function bounded<T>(answer: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  signal?.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const late = setTimeout(
    () => reject(codedError("DEADLINE_EXCEEDED", `an append was not answered within ${appendMs} ms`)),
    appendMs,
  );
  const stop = (): void => reject(codedError("CANCELLED", "the append was given up by its caller"));
  signal?.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([answer, promise]);
  } finally {
    clearTimeout(late);
    signal?.removeEventListener("abort", stop);
  }
}

function options({ signal, execution, traceparent }: CallScope): CallOptions {
  return {
    ...(signal === undefined ? {} : { signal }),
    ...(execution === undefined ? {} : { execution }),
    ...(traceparent === undefined || traceparent === "" ? {} : { metadata: { traceparent } }),
  };
}
