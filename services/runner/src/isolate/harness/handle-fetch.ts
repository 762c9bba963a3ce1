/** Hands one HTTP request to the project's default export. Bodies stream through workerd and are never touched here. */
import { construct, isClass, mainExport } from "./project-class.js";
import { failureOf } from "./failure.js";
import type { WaitUntil } from "./head.js";

/** Says how the exchange went, to the supervisor, which removes it again: `returned`, or `threw` with the failure as body. */
const outcomeHeader = "x-iterate-outcome";
const internalHeaders = ["x-iterate-operation", "x-iterate-invocation", "x-iterate-scope", "x-iterate-scheme"];

export async function handleFetch(request: Request, runtime: WaitUntil): Promise<Response> {
  try {
    const entryPoint = mainExport();
    if (!isClass(entryPoint))
      throw Object.assign(new Error("The project's main module has no default export that is a class."), { code: "NOT_A_METHOD" });
    const instance = construct(entryPoint, runtime) as { fetch?: (request: Request) => unknown };
    if (typeof instance.fetch !== "function")
      throw Object.assign(new Error("The project's default export has no fetch method."), { code: "NOT_A_METHOD" });
    const response = await instance.fetch(withoutInternalHeaders(request));
    if (!(response instanceof Response)) throw new TypeError("fetch did not return a Response.");
    if ((response as { webSocket?: unknown }).webSocket)
      throw new TypeError("fetch returned a WebSocket, which this platform does not pass on.");
    const answer = new Response(response.body, response);
    answer.headers.set(outcomeHeader, "returned");
    return answer;
  } catch (thrown) {
    return Response.json(failureOf(thrown), { headers: { [outcomeHeader]: "threw" } });
  }
}

function withoutInternalHeaders(request: Request): Request {
  const clean = new Request(request);
  for (const name of internalHeaders) clean.headers.delete(name);
  return clean;
}
