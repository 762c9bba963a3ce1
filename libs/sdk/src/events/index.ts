/** The closed catalog of event types under `events.iterate.com/`. */
import * as github from "./github.js";
import * as itx from "./itx.js";
import * as project from "./project.js";
import * as repo from "./repo.js";
import * as secret from "./secret.js";
import type { EventTypeDeclaration } from "./event-type.js";

export { eventType, platformPrefix } from "./event-type.js";
export type { EventTypeDeclaration } from "./event-type.js";
export { github, itx, project, repo, secret };

const isDeclaration = (value: unknown): value is EventTypeDeclaration =>
  typeof value === "object" && value !== null && "type" in value && "payload" in value;

/** Every declared type by its full name. */
export const eventCatalog: ReadonlyMap<string, EventTypeDeclaration> = new Map(
  [itx, project, repo, github, secret].flatMap((module) =>
    Object.values<unknown>(module)
      .filter(isDeclaration)
      .map((declaration) => [declaration.type, declaration] as const),
  ),
);
