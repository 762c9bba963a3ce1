/**
 * The log of a context for builtins: the handlers of the service's own methods, called in this process instead of over a connection. So
 * every bound, wall and stamp is that of a direct call.
 */
import type { ContextServiceService } from "@iterate-platform/proto/iterate/context/v1/context";
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

  /** The log of one context, for the caller of `call` and as long as that lasts. */
  of(address: ContextAddress, call: CallContext): ContextLog {
    const { append, readEvents, streamEvents, waitForEvent } = this.#handlers;
    return new ContextLog(
      {
        append: async (request) => await append(request, call),
        readEvents: async (request) => await readEvents(request, call),
        waitForEvent: async (request) => await waitForEvent(request, call),
        streamEvents: (request) => iterator(streamEvents(request, call)),
      },
      { ...address },
      {},
    );
  }
}

async function* iterator<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item, undefined> {
  yield* items;
  return undefined;
}
