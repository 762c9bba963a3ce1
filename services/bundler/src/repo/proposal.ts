/**
 * What git finds out about a proposed set of ref updates while the new objects are still in quarantine: whether they keep the limits,
 * whether each branch moves forward, and what their facts will say.
 */
import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { codedError, type CodedError } from "iterate/lib";
import type { BareRepo } from "./bare-repo.js";
import { branchPrefix, mainBranch, refNameProblem, type RefUpdate, type RepoLimits } from "./contract.js";
import type { Git, GitEnv } from "./git.js";

export interface ProposedPack {
  /** `pack-<40 hex digits>`. */
  readonly name: string;
  /** The folder that holds it and its index. */
  readonly folder: string;
  readonly size: number;
  readonly objects: number;
}

export interface InspectedUpdate extends RefUpdate {
  /** JSON text of the payload of `repo/commit-completed`; null when the ref is removed. */
  readonly fact: string | null;
}

/** A message is for people to recognise a commit by; the whole of it is in git. */
const maxFactMessageLength = 16_384;
const maxFactPaths = 1000;
const maxFactPathBytes = 1024 * 1024;

export class Inspector {
  readonly #git: Git;
  readonly #limits: RepoLimits;

  constructor(git: Git, limits: RepoLimits) {
    this.#git = git;
    this.#limits = limits;
  }

  /** Throws INVALID_INPUT for names and counts no repository takes. Looks at nothing else. */
  checkNames(updates: readonly RefUpdate[]): void {
    if (updates.length > this.#limits.maxUpdates)
      throw codedError("INVALID_INPUT", `the push moves ${updates.length} refs; at most ${this.#limits.maxUpdates} move together`);
    for (const update of updates) {
      const problem = refNameProblem(update.name);
      if (problem !== null) throw codedError("INVALID_INPUT", `${update.name.slice(0, 200)} ${problem}`);
      if (update.new === null && update.name === branchPrefix + mainBranch)
        throw codedError("INVALID_INPUT", `${mainBranch} cannot be removed`);
    }
  }

  /** The one pack of a quarantine, undefined when nothing in it is new. Throws BATCH_TOO_LARGE when it or an object is over a limit. */
  async pack(folder: string, tips: readonly string[], env: GitEnv): Promise<ProposedPack | undefined> {
    const files = (await readdir(folder).catch(() => [])).filter((file) => /^pack-[0-9a-f]{40}\.pack$/.test(file));
    if (files.length === 0) return undefined;
    if (files.length > 1) throw codedError("INTERNAL", `a quarantine holds ${files.length} packs`);
    const { size, objects } = await measurePack(join(folder, files[0]!));
    const { maxPackBytes, maxPackObjects } = this.#limits;
    if (size > maxPackBytes)
      throw codedError(
        "BATCH_TOO_LARGE",
        `the pack has ${size} bytes; at most ${maxPackBytes} are taken at once: push fewer commits`,
      );
    if (objects > maxPackObjects)
      throw codedError(
        "BATCH_TOO_LARGE",
        `the pack has ${objects} objects; at most ${maxPackObjects} are taken at once: push fewer commits`,
      );
    await this.#checkObjects(join(folder, ".."), tips, env);
    return { name: files[0]!.replace(/\.pack$/, ""), folder, size, objects };
  }

  /**
   * Checks one update against the commit the ref is at and says what its fact says. Throws NOT_FAST_FORWARD when `main` would not
   * move forward, INVALID_INPUT when the target is no commit.
   */
  async inspect(update: RefUpdate, bare: BareRepo, env: GitEnv, pusher: string | undefined): Promise<InspectedUpdate> {
    if (update.new === null) return { ...update, fact: null };
    const branch = update.name.slice(branchPrefix.length);
    const type = await this.#git.text(["cat-file", "-t", update.new], env);
    if (type !== "commit") throw codedError("INVALID_INPUT", `${branch} would point at a ${type}; a branch points at a commit`);
    if (branch === mainBranch && update.old !== null && !(await this.#isAncestor(update.old, update.new, env)))
      throw notFastForward(branch, update.new, update.old);
    const fact = {
      path: bare.repo.path,
      branch,
      commitOid: update.new,
      parentOid: update.old,
      message: await this.#message(update.new, env),
      changedPaths: await this.#changedPaths(update.old, update.new, env),
      ...(pusher === undefined ? {} : { pusher }),
    };
    return { ...update, fact: JSON.stringify(fact) };
  }

  async #isAncestor(ancestor: string, descendant: string, env: GitEnv): Promise<boolean> {
    const { code } = await this.#git.run({ args: ["merge-base", "--is-ancestor", ancestor, descendant], env, accept: [0, 1] });
    return code === 0;
  }

  async #message(oid: string, env: GitEnv): Promise<string> {
    const { output } = await this.#git.run({
      args: ["log", "-1", "--no-show-signature", "--format=%B", oid],
      env,
      maxOutputBytes: 4 * maxFactMessageLength,
      onOverflow: "cut",
    });
    return cleanText(output.toString("utf8").trimEnd()).slice(0, maxFactMessageLength).toWellFormed();
  }

  async #changedPaths(old: string | null, oid: string, env: GitEnv): Promise<string[]> {
    const args =
      old === null
        ? ["ls-tree", "-r", "-z", "--name-only", "--full-tree", oid]
        : ["diff-tree", "-r", "-z", "--name-only", "--no-renames", old, oid];
    const { output } = await this.#git.run({ args, env, maxOutputBytes: maxFactPathBytes, onOverflow: "cut" });
    // What follows the last NUL is empty, or a name that was cut.
    return output.toString("utf8").split("\0").slice(0, -1).slice(0, maxFactPaths).map(cleanText);
  }

  /** Looks at the size of every object in quarantine without unpacking one. */
  async #checkObjects(objectDir: string, tips: readonly string[], env: GitEnv): Promise<void> {
    const { maxFileBytes } = this.#limits;
    const alone = { GIT_DIR: env["GIT_DIR"]!, GIT_OBJECT_DIRECTORY: objectDir };
    const listing = await this.#git.text(
      ["cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectsize) %(objectname) %(objecttype)"],
      alone,
    );
    for (const line of listing.split("\n")) {
      const [size, oid, type] = line.split(" ");
      if (Number(size) <= maxFileBytes) continue;
      const name = type === "blob" ? ((await this.#nameOf(oid!, tips, env)) ?? oid) : `the ${type} ${oid}`;
      throw codedError("BATCH_TOO_LARGE", `${name} has ${size} bytes; a file may have at most ${maxFileBytes}`);
    }
  }

  /** Where a commit of the push has the blob; only asked when the push is refused for it. */
  async #nameOf(oid: string, tips: readonly string[], env: GitEnv): Promise<string | undefined> {
    const { output } = await this.#git.run({ args: ["rev-list", "--objects", ...tips, "--not", "--all"], env });
    const line = output
      .toString("utf8")
      .split("\n")
      .find((line) => line.startsWith(`${oid} `));
    return line === undefined ? undefined : JSON.stringify(cleanText(line.slice(41)).slice(0, 300));
  }
}

/** NOT_FAST_FORWARD with the commit that was proposed and the one the branch is at. */
export function notFastForward(branch: string, ours: string, theirs: string | null): CodedError {
  const at = theirs === null ? "does not exist" : `is at ${theirs}`;
  return codedError("NOT_FAST_FORWARD", `${branch} ${at}, which ${ours} does not follow; fetch, merge and push again`, {
    ours,
    theirs,
  });
}

/** Bytes of a pack and the number of objects its header says it has; git has checked both by now. */
export async function measurePack(path: string): Promise<{ size: number; objects: number }> {
  const file = await open(path, "r");
  try {
    const { buffer } = await file.read(Buffer.alloc(12), 0, 12, 0);
    return { size: (await file.stat()).size, objects: buffer.readUInt32BE(8) };
  } finally {
    await file.close();
  }
}

/** Text that is shown and stored as JSON: no NUL. */
const cleanText = (text: string): string => text.replaceAll("\0", "\uFFFD");
