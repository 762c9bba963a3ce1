/**
 * The log of a context for builtins: the handlers of the service's own methods, called in this process instead of over a connection. So
 * every bound, wall and stamp is that of a direct call.
 */
import { hash } from "node:crypto";
import type { AppendRequest, ContextServiceService } from "@iterate-platform/proto/iterate/context/v1/context";
import type { EventInput } from "@iterate-platform/proto/iterate/type/v1/event";
import { ContextLog } from "@iterate-platform/service/context-log";
import type { CallContext, HandlerOf } from "@iterate-platform/service/grpc-server";
import type { ContextAddress } from "../log/contract.js";

type Names = "append" | "readEvents" | "streamEvents" | "waitForEvent";

export type LogHandlers = { readonly [Name in Names]: HandlerOf<ContextServiceService[Name]> };

export class LocalLogs {
  readonly #handlers: LogHandlers;

  constructor(handlers: LogHandlers) {
    this.#handlers = handlers;
  }

  /**
   * The log of one context, for the caller of `call` and as long as that lasts.
   *
   * @param keyScope what the keys of events begin with that come without one, so that a call that is repeated appends them once; null
   * leaves them without.
   */
  of(address: ContextAddress, call: CallContext, keyScope: string | null): ContextLog {
    const { append, readEvents, streamEvents, waitForEvent } = this.#handlers;
    return new ContextLog(
      {
        append: async (request) => await append(keyScope === null ? request : keyed(request, keyScope), call),
        readEvents: async (request) => await readEvents(request, call),
        waitForEvent: async (request) => await waitForEvent(request, call),
        streamEvents: (request) => iterator(streamEvents(request, call)),
      },
      { ...address },
      {},
    );
  }
}

function keyed(request: AppendRequest, scope: string): AppendRequest {
  const where = digest(request.context?.path ?? "");
  const events = request.events.map((event) =>
    event.idempotencyKey !== "" || event.ephemeral ? event : { ...event, idempotencyKey: `${scope}:${where}:${bodyDigest(event)}` },
  );
  return { ...request, events };
}

/** Equal for equal events of one call; builtins print what they append themselves. */
function bodyDigest({ type, payload, metadata }: EventInput): string {
  return digest(JSON.stringify([type, textOf(payload), textOf(metadata)]));
}

function textOf(bytes: Uint8Array | undefined): string | null {
  return bytes === undefined ? null : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

function digest(text: string): string {
  return hash("sha256", text, "base64url");
}

async function* iterator<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item, undefined> {
  yield* items;
  return undefined;
}
