/**
 * The pages of projects, on a listener and host of their own. In path mode all projects share one origin, so no cookie is read or set;
 * what a page does beyond that is the project's own code's to decide.
 */
import type { IncomingMessage } from "node:http";
import type { HttpHandler } from "@iterate-platform/service/http-server";
import type { Trust } from "@iterate-platform/service/trust";
import { codedError } from "iterate/lib";
import type { Projects } from "../project/projects.js";
import { projectAddressOf } from "../route/addresses.js";
import type { Forwarder } from "../route/forward.js";

export interface ProjectPagesParts {
  readonly projects: Projects;
  readonly forwarder: Forwarder;
  readonly trust: Trust;
  readonly runnerHttpUrl: string;
}

const pageIdleTimeoutMs = 60_000;
const rules = { drop: new Set(["cookie", "set-cookie", "authorization"]) };

export function projectPages({ projects, forwarder, trust, runnerHttpUrl }: ProjectPagesParts): HttpHandler {
  return async (request, response) => {
    const address = projectAddressOf(request.url ?? "/");
    if (address === null) throw codedError("NOT_FOUND", "no project is at this address; pages are under /projects/<slug>/");
    if ("redirect" in address) {
      response.writeHead(308, { location: address.redirect }).end();
      return;
    }
    const project = await projects.get(address.slug);
    await forwarder.forward(request, response, {
      origin: runnerHttpUrl,
      path: `/fetch/${project.id}${address.path}`,
      headers: { ...(await trust.headers("runner")), ...forCode(request), "x-iterate-base-path": address.basePath },
      rules,
      idleTimeoutMs: pageIdleTimeoutMs,
      answerHeaders: { "x-content-type-options": "nosniff" },
    });
  };
}

/** What the project's code is told of the request as the client made it; its Authorization is the project's, not the platform's. */
function forCode({ headers }: IncomingMessage): Record<string, string> {
  return {
    "x-forwarded-proto": "http",
    ...(headers.host === undefined ? {} : { "x-forwarded-host": headers.host }),
    ...(headers.authorization === undefined ? {} : { "x-iterate-project-authorization": headers.authorization }),
  };
}
