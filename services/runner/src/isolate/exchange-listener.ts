/** The internal HTTP listener of the isolate role: takes exchanges that were announced on Invoke, from the runner alone. */
import { httpAuth, type HttpHandler } from "@iterate-platform/service/http-server";
import type { Trust } from "@iterate-platform/service/trust";
import { codedError, isCodedError } from "iterate/lib";
import { answerFailure, type Exchange } from "./exchange.js";
import { exchangeHeaders } from "./exchange-headers.js";

/** Header block of this listener, bytes: a project's headers with those of the way must not meet a lower bound than at ingress. */
export const exchangeHeaderBytes = 64 * 1024;

const policy = { services: ["runner"], execution: "refused", person: "refused" } as const;

export function exchangeHandler(trust: Trust, exchanges: ReadonlyMap<string, Exchange>): HttpHandler {
  return async (request, response) => {
    try {
      await httpAuth(request, trust, policy);
      const exchange = exchanges.get([request.headers[exchangeHeaders.invocation]].flat()[0] ?? "");
      if (exchange === undefined) throw codedError("NOT_FOUND", "No invocation awaits a request under this ticket.");
      await exchange.carry(request, response);
    } catch (thrown) {
      if (!isCodedError(thrown)) throw thrown;
      answerFailure(response, thrown);
    }
  };
}
