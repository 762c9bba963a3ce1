/** The words of repositories: names, updates, limits. */
import { assertContextPath, codedError } from "iterate/lib";

/** A repository as others name it: a project and the context path the repository's facts go to. */
export interface RepoName {
  readonly owner: string;
  readonly path: string;
}

/** A repository that exists. */
export interface Repo extends RepoName {
  readonly id: string;
}

export interface RefUpdate {
  /** Full name, `refs/heads/<branch>`. */
  readonly name: string;
  /** Commit the ref must be at; null when it must not exist. */
  readonly old: string | null;
  /** Commit it moves to; null removes it. */
  readonly new: string | null;
}

export interface RepoLimits {
  /** Bytes of one push or commit as git packs them. */
  readonly maxPackBytes: number;
  readonly maxPackObjects: number;
  readonly maxFileBytes: number;
  /** Bytes of all packs of a repository. */
  readonly maxRepoBytes: number;
  readonly maxRefs: number;
  readonly maxUpdates: number;
}

const MiB = 1024 * 1024;

export const repoLimits: RepoLimits = {
  maxPackBytes: 64 * MiB,
  maxPackObjects: 200_000,
  maxFileBytes: 16 * MiB,
  maxRepoBytes: 512 * MiB,
  maxRefs: 1000,
  maxUpdates: 100,
};

export const mainBranch = "main";
export const branchPrefix = "refs/heads/";

const ownerPattern = /^(global|prj_[0-9a-z]{1,64})$/;

/** Throws INVALID_CONTEXT unless `name` is a project and a path below `/repos/`. Not retryable. */
export function assertRepoName({ owner, path }: RepoName): void {
  if (!ownerPattern.test(owner))
    throw codedError("INVALID_CONTEXT", `repository owner ${JSON.stringify(owner.slice(0, 120))} is not a project id`);
  assertContextPath(path);
  if (!path.startsWith("/repos/"))
    throw codedError(
      "INVALID_CONTEXT",
      `${JSON.stringify(path.slice(0, 120))} is no place for a repository; its path starts with /repos/`,
    );
}

/** Why a ref may not have this name, for its pusher; null when it may. Narrower than git's own rules, so git never refuses it later. */
export function refNameProblem(name: string): string | null {
  if (!name.startsWith(branchPrefix)) return "is not a branch; only refs/heads/* is kept";
  const branch = name.slice(branchPrefix.length);
  if (branch.length > 200) return "is longer than 200 characters";
  if (!/^[A-Za-z0-9][A-Za-z0-9._+@/-]*$/.test(branch))
    return "may only have letters, digits and . _ + @ / -, and starts with a letter or digit";
  if (/\.\.|\/\/|@\{|\/[.-]|\.\/|\.lock(\/|$)|[/.]$/.test(branch)) return "is not a well-formed branch name";
  return null;
}

const oidPattern = /^[0-9a-f]{40}$/;

export const isOid = (text: string): boolean => oidPattern.test(text);

/** Throws INVALID_INPUT unless `text` is a full object id: nothing else reaches git where it would read a revision. */
export function assertOid(text: string, what: string): void {
  if (!isOid(text))
    throw codedError("INVALID_INPUT", `${what} ${JSON.stringify(text.slice(0, 80))} is not a commit id of 40 hex digits`);
}
