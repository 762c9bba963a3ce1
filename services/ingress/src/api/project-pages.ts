/**
 * The pages of projects, on a listener and host of their own. In path mode all projects share one origin, so no cookie is read or set;
 * what a page does beyond that is the project's own code's to decide.
 */
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
const rules = { drop: new Set(["cookie", "set-cookie"]) };

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
      headers: { ...(await trust.headers("runner")), "x-iterate-base-path": address.basePath },
      rules,
      idleTimeoutMs: pageIdleTimeoutMs,
      answerHeaders: { "x-content-type-options": "nosniff" },
    });
  };
}
