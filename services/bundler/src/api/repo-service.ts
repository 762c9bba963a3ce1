/** `RepoService`: commits and reads of a project's repositories, without a git client. */
import type { RepoRef, RepoServiceService } from "@iterate-platform/proto/iterate/bundler/v1/repo";
import type { CallContext, Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import { uuidv7 } from "@iterate-platform/service/ids";
import { currentTraceparent } from "@iterate-platform/service/tracing";
import { codedError } from "iterate/lib";
import type { BareRepo } from "../repo/bare-repo.js";
import type { Committer } from "../repo/commit.js";
import { assertOid, branchPrefix, mainBranch, refNameProblem } from "../repo/contract.js";
import type { Reader } from "../repo/reader.js";
import type { RepoCache } from "../repo/repo-cache.js";
import { ownedRepo } from "./repo-ref.js";

export interface RepoServiceParts {
  readonly repos: RepoCache;
  readonly committer: Committer;
  readonly reader: Reader;
}

const admitted = { services: ["ingress", "runner", "context"], execution: "allowed" } as const;

export const repoRules: MethodRules<typeof RepoServiceService> = {
  commitFiles: admitted,
  readFile: admitted,
  listFiles: admitted,
  getTip: admitted,
  listCommits: admitted,
};

const defaultLimit = 50;
const maxLimit = 200;

export function repoHandlers({ repos, committer, reader }: RepoServiceParts): Handlers<typeof RepoServiceService> {
  /** The repository and a commit of it: the one that is named, else the tip of `main`. */
  const at = async (ref: RepoRef | undefined, commit: string, call: CallContext): Promise<{ bare: BareRepo; commit: string }> => {
    const name = ownedRepo(ref, call);
    const bare = await repos.find(name);
    const found = bare !== undefined && commit === "" ? (await bare.sync()).get(branchPrefix + mainBranch) : commit;
    if (bare === undefined || found === undefined)
      throw codedError("NOT_FOUND", `${name.path} has no commit on ${mainBranch} yet; push or commit to it`);
    return { bare, commit: found };
  };

  return {
    commitFiles: async ({ repo, message, changes, author, parent }, call) => {
      const name = ownedRepo(repo, call);
      if (parent !== undefined && parent !== "") assertOid(parent, "parent");
      const who = call.caller.principal ?? call.caller.service;
      const oid = await committer.commit(await repos.make(name), {
        message,
        changes: changes.map(({ path, content }) => ({ path, content })),
        author: author ?? authorOf(who),
        parent: parent === "" ? null : parent,
        pushId: uuidv7(),
        pusher: who,
        traceparent: currentTraceparent() || undefined,
      });
      return { oid };
    },

    readFile: async ({ repo, path, commit: asked }, call) => {
      const { bare, commit } = await at(repo, asked, call);
      return { content: await reader.file(bare, commit, path), commit };
    },

    listFiles: async ({ repo, commit: asked }, call) => {
      const { bare, commit } = await at(repo, asked, call);
      return { paths: await reader.paths(bare, commit), commit };
    },

    getTip: async ({ repo, branch }, call) => {
      const refName = branchPrefix + (branch === "" ? mainBranch : branch);
      const problem = refNameProblem(refName);
      if (problem !== null) throw codedError("INVALID_INPUT", `branch ${JSON.stringify(branch.slice(0, 120))} ${problem}`);
      const bare = await repos.find(ownedRepo(repo, call));
      return { oid: (await bare?.sync())?.get(refName) ?? "" };
    },

    listCommits: async ({ repo, from, limit }, call) => {
      if (limit < 0 || limit > maxLimit)
        throw codedError("INVALID_INPUT", `limit ${limit} is not from 1 to ${maxLimit}; 0 means ${defaultLimit}`);
      const { bare, commit } = await at(repo, from, call);
      const commits = await reader.log(bare, commit, limit === 0 ? defaultLimit : limit);
      return { commits: commits.map(({ timeS, parents, ...info }) => ({ ...info, timeS: BigInt(timeS), parents: [...parents] })) };
    },
  };
}

/** git keeps a name and an address for every commit: a principal that is an address is its own. */
function authorOf(who: string): { name: string; email: string } {
  const name =
    who
      .replace(/[<>\u0000-\u001f\u007f]/g, " ")
      .trim()
      .slice(0, 200) || "iterate";
  return { name, email: name.includes("@") ? name : `${name.replace(/[^A-Za-z0-9._-]+/g, "-")}@iterate.invalid` };
}
