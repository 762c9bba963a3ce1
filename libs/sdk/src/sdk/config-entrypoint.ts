/** The default export of a project's main module. */
import type { Itx } from "../api/itx.js";
import { currentInvocation } from "./isolate.js";
import { openItx } from "./itx.js";

/** Answers the project's HTTP requests. The platform constructs it for each call; keep nothing in it. */
export class IterateConfigEntrypoint {
  /** Answers one request that no route takes. Without an override: 404. */
  fetch(_request: Request): Response | Promise<Response> {
    return Response.json(
      { title: "This project has no page here", status: 404 },
      { status: 404, headers: { "content-type": "application/problem+json" } },
    );
  }

  /** A scope on the context this code runs in, the project's root. Bind it with `using`, in the smallest block that calls it. */
  protected getItx(): Itx {
    const { itx, contextPath } = currentInvocation();
    return openItx(itx, contextPath);
  }

  /** The context the call came from, as the platform stamped it. For a request from outside it is the context itself. */
  protected callerPath(): string {
    return currentInvocation().callerPath;
  }
}
