/** What all commands share: how they reach the deployment, and the flags for it. */
import type { Command } from "commander";
import { resolveContextPath } from "../lib/context-path.js";
import { connectIterate, type IterateConnection } from "../node/connect-iterate.js";
import { connectionSettings, type ConnectionFlags } from "./settings.js";
import type { Surroundings } from "./surroundings.js";

export interface CommonFlags extends ConnectionFlags {
  readonly json?: true;
}

export interface ContextFlags extends CommonFlags {
  readonly project: string;
  readonly context: string;
}

/** Of a flag that must be given. */
export const projectHelp = "slug or id of the project (required)";

/** A context as a person names it: from the root. Throws INVALID_CONTEXT. */
export const contextPath = (text: string): string => resolveContextPath("/", text);

export function withCommonFlags(command: Command): Command {
  return command
    .option("--base-url <url>", "the deployment (or ITERATE_BASE_URL; default http://localhost:7400)")
    .option("--token-file <path>", "file with the admin token (or ITERATE_ADMIN_TOKEN; default the nearest .iterate/admin-token)")
    .option("--json", "print JSON for programs");
}

export function withContextFlags(command: Command): Command {
  return withCommonFlags(
    command
      .requiredOption("--project <slug>", projectHelp)
      .option("--context <path>", "path of the context; without a slash at its beginning, from the root", contextPath, "/"),
  );
}

export function connect(flags: ConnectionFlags, surroundings: Surroundings): Promise<IterateConnection> {
  return connectIterate(connectionSettings(flags, surroundings));
}
