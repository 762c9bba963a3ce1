/** The internal HTTP listener: project pages for ingress. */
import { createHttpServer, httpAuth, type HttpServer } from "@iterate-platform/service/http-server";
import type { ListenAddress } from "@iterate-platform/service/config";
import type { Log } from "@iterate-platform/service/log";
import type { Trust } from "@iterate-platform/service/trust";
import type { ProjectPages } from "../fetch/project-pages.js";

export function fetchListener(
  pages: ProjectPages,
  options: { readonly listen: ListenAddress; readonly log: Log; readonly trust: Trust },
): HttpServer {
  const { listen, log, trust } = options;
  return createHttpServer({
    name: "runner",
    listen,
    log,
    // Bodies are streams; the invocation's deadline bounds them.
    requestTimeoutMs: 0,
    handler: async (request, response, call) => {
      const caller = await httpAuth(request, trust, { services: ["ingress"], execution: "refused" });
      await pages.serve(request, response, caller.principal, call);
    },
  });
}
