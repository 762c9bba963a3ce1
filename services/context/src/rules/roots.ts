/**
 * The vocabulary of builtin roots. It is closed, like that of events: whether a rule that masks or restates a name changes anything is
 * decided when state is folded, which must come out the same wherever and whenever it is done. A service that answers a root lists its
 * name here first.
 */
import type { Roots } from "./contract.js";

/** Answered by every context for itself. */
const contextRoots = [
  "abort",
  "append",
  "cd",
  "describe",
  "explain",
  "facets",
  "limits",
  "processors",
  "provide",
  "readEvents",
  "rewriteRules",
  "rpcStubs",
  "run",
  "runs",
  "schedules",
  "streamEvents",
  "subscriptions",
  "url",
  "waitForEvent",
  "webhooks",
  "whoami",
  "workers",
];

/** Answered by the root of a project; a context below it has them by a rule. */
const projectRoots = [
  "agents",
  "ai",
  "browser",
  "connectToCapnweb",
  "connectToMcp",
  "connectToOpenApi",
  "deployments",
  "email",
  "fetch",
  "fetchRoutes",
  "files",
  "images",
  "integrations",
  "kv",
  "r2",
  "repos",
  "sandboxes",
  "secrets",
  "telemetry",
  "workspaces",
];

const names = new Map<string, { readonly isContextRoot: boolean }>();
for (const name of contextRoots) names.set(name, { isContextRoot: true });
for (const name of projectRoots) names.set(name, { isContextRoot: false });

/** Every name that may be a root. What a deployment answers of them is its registry's to say. */
export const vocabularyOfRoots: Roots & { readonly names: readonly string[] } = {
  names: [...names.keys()],
  has: (name) => names.has(name),
  isContextRoot: (name) => names.get(name)?.isContextRoot ?? false,
};
