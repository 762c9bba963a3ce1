/**
 * ContextService for other teams: the call is forwarded to `context` on behalf of whoever showed the bearer, streams piped with
 * back-pressure in both directions. Nothing a caller sends can make it appear to be code: execution tokens are the runner's alone.
 */
import type { AppendStreamRequest, ContextServiceService } from "@iterate-platform/proto/iterate/context/v1/context";
import type { ContextClient } from "@iterate-platform/service/context-log";
import type { BidiCall, CallOptions } from "@iterate-platform/service/grpc-client";
import type { CallContext, Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import { codedError } from "iterate/lib";

type Definition = typeof ContextServiceService;

/** Proven by a bearer, never by a service token or an execution token. */
const forPersons = { services: ["public"], execution: "refused", person: "required" } as const;

export const publicContextRules: MethodRules<Definition> = {
  append: forPersons,
  appendStream: forPersons,
  readEvents: forPersons,
  streamEvents: forPersons,
  waitForEvent: forPersons,
  describeContext: forPersons,
  invoke: forPersons,
  describe: forPersons,
  explain: forPersons,
  listChildren: forPersons,
};

export function publicContextService(context: ContextClient): Handlers<Definition> {
  return {
    append: (request, call) => context.append(request, onBehalf(call)),
    readEvents: (request, call) => context.readEvents(request, onBehalf(call)),
    waitForEvent: (request, call) => context.waitForEvent(request, onBehalf(call)),
    describeContext: (request, call) => context.describeContext(request, onBehalf(call)),
    explain: (request, call) => context.explain(request, onBehalf(call)),
    listChildren: (request, call) => context.listChildren(request, onBehalf(call)),
    streamEvents: (request, call) => context.streamEvents(request, onBehalf(call)),
    invoke: (request, call) => context.invoke(request, onBehalf(call)),
    describe: (request, call) => context.describe(request, onBehalf(call)),
    appendStream: async function* (requests: AsyncIterable<AppendStreamRequest>, call: CallContext) {
      const forwarded = context.appendStream(onBehalf(call));
      const pump = new Pump(forwarded, requests);
      try {
        yield* forwarded.responses;
      } catch (error) {
        throw pump.failure ?? error;
      } finally {
        forwarded.cancel();
      }
      if (pump.failure !== null) throw pump.failure;
    },
  };
}

function onBehalf(call: CallContext): CallOptions {
  const { principal } = call.caller;
  if (principal === undefined) throw codedError("UNAUTHENTICATED", "the call carries no bearer");
  return { principal, signal: call.signal, deadlineMs: Number.isFinite(call.deadlineMs) ? call.deadlineMs : undefined };
}

/** Hands requests on. Its failure, a broken stream of the caller's or a request that may not pass, ends the forwarded call. */
class Pump {
  failure: Error | null = null;

  constructor(forwarded: BidiCall<AppendStreamRequest, unknown>, requests: AsyncIterable<AppendStreamRequest>) {
    void this.#run(forwarded, requests).catch((error: unknown) => {
      this.failure = error instanceof Error ? error : new Error(String(error));
      forwarded.cancel();
    });
  }

  async #run(forwarded: BidiCall<AppendStreamRequest, unknown>, requests: AsyncIterable<AppendStreamRequest>): Promise<void> {
    for await (const request of requests) {
      if (request.items.some((item) => item.execution !== "")) {
        throw codedError("FORBIDDEN", "items[].execution is set; only the platform's runner makes execution tokens", {
          field: "execution",
        });
      }
      await forwarded.send(request);
    }
    forwarded.end();
  }
}
