/** Which project a call may touch: the one it names, and for running code only its own. */
import type { RepoRef } from "@iterate-platform/proto/iterate/bundler/v1/repo";
import type { CallContext } from "@iterate-platform/service/grpc-server";
import { codedError } from "iterate/lib";
import { assertRepoName, type RepoName } from "../repo/contract.js";

/** Throws FORBIDDEN when code of one project names another. */
export function requireOwner(owner: string, { caller }: CallContext): void {
  if (caller.execution !== undefined && caller.execution.owner !== owner)
    throw codedError("FORBIDDEN", "code of one project may not use another's repositories or builds");
}

/** The repository a request names. Throws INVALID_INPUT, INVALID_CONTEXT or FORBIDDEN. */
export function ownedRepo(ref: RepoRef | undefined, call: CallContext): RepoName {
  if (ref === undefined) throw codedError("INVALID_INPUT", "the request names no repository");
  const name = { owner: ref.owner, path: ref.path };
  assertRepoName(name);
  requireOwner(name.owner, call);
  return name;
}
