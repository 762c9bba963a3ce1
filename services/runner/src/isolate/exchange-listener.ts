/** The internal HTTP listener of the isolate role: takes exchanges that were announced on Invoke, from the runner alone. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Trust } from "@iterate-platform/service/trust";
import { codedError, isCodedError } from "iterate/lib";
import { answerFailure, type Exchange } from "./exchange.js";
import { exchangeHeaders } from "./exchange-headers.js";

/** A project's headers may be large; Node's default of 16 KiB would refuse what ingress took. */
const maxHeaderBytes = 64 * 1024;

/** Not yet listening. */
export function exchangeListener(trust: Pick<Trust, "authenticate">, exchanges: ReadonlyMap<string, Exchange>): Server {
  const server = createServer({ maxHeaderSize: maxHeaderBytes, requestTimeout: 0 }, (request, response) => {
    void carry(trust, exchanges, request, response);
  });
  // Without a listener Node answers 100 Continue by itself before anyone has been asked; a body follows only once it is wanted.
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    response.writeContinue();
    void carry(trust, exchanges, request, response);
  });
  return server;
}

async function carry(trust: Pick<Trust, "authenticate">, exchanges: ReadonlyMap<string, Exchange>, request: IncomingMessage, response: ServerResponse): Promise<void> {
  response.on("error", () => response.destroy());
  try {
    const { service } = await trust.authenticate((name) => [request.headers[name]].flat()[0]);
    if (service !== "runner") throw codedError("FORBIDDEN", `Service ${JSON.stringify(service)} may not reach isolates.`);
    const exchange = exchanges.get([request.headers[exchangeHeaders.invocation]].flat()[0] ?? "");
    if (exchange === undefined) throw codedError("NOT_FOUND", "No invocation awaits a request under this ticket.");
    await exchange.carry(request, response);
  } catch (thrown) {
    answerFailure(response, isCodedError(thrown) ? thrown : codedError("INTERNAL", "The request could not be carried."));
  }
}
