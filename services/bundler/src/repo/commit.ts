/** Commits made by the platform: objects are written to a quarantine of their own and take the same way in as a push. */
import { rm } from "node:fs/promises";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { failpoint } from "@iterate-platform/service/failpoints";
import { codedError } from "iterate/lib";
import type { Acceptance } from "./acceptance.js";
import type { BareRepo } from "./bare-repo.js";
import { branchPrefix, mainBranch } from "./contract.js";
import type { Git, GitEnv } from "./git.js";
import { notFastForward } from "./proposal.js";

export interface FileChange {
  readonly path: string;
  /** Undefined removes the file; removing what is not there changes nothing. */
  readonly content: Uint8Array | undefined;
}

export interface CommitInput {
  readonly message: string;
  readonly changes: readonly FileChange[];
  readonly author: { readonly name: string; readonly email: string };
  /** Commit `main` must be at; null when it must not exist; undefined when that does not matter. */
  readonly parent: string | null | undefined;
  readonly pushId: string;
  readonly pusher: string | undefined;
  readonly traceparent: string | undefined;
}

export interface CommitterParts {
  readonly git: Git;
  readonly acceptance: Acceptance;
  readonly nowMs: () => number;
}

export const maxChanges = 1000;
export const maxMessageBytes = 64 * 1024;
const maxPathBytes = 1024;

/** Times a commit that does not mind its parent is made again on top of a rival. */
const maxRaces = 8;

export class Committer {
  readonly #parts: CommitterParts;

  constructor(parts: CommitterParts) {
    this.#parts = parts;
  }

  /**
   * Commits on `main` and answers the commit once it is durable. A commit that would change nothing answers the tip, so a repeat is
   * safe. Throws INVALID_INPUT, NOT_FAST_FORWARD when `main` is not at `parent`; after UNAVAILABLE it may have been made.
   */
  async commit(bare: BareRepo, input: CommitInput): Promise<string> {
    checkInput(input);
    for (let race = 1; ; race += 1) {
      const refs = await bare.sync();
      const tip = refs.get(branchPrefix + mainBranch) ?? null;
      if (input.parent !== undefined && input.parent !== tip)
        throw notFastForward(mainBranch, input.parent ?? "a first commit", tip);
      try {
        return await this.#commitOn(bare, tip, input);
      } catch (error) {
        const isRace = (error as { code?: unknown }).code === "NOT_FAST_FORWARD";
        if (!isRace || input.parent !== undefined || race === maxRaces) throw error;
      }
    }
  }

  async #commitOn(bare: BareRepo, tip: string | null, input: CommitInput): Promise<string> {
    const { git, acceptance } = this.#parts;
    const objectDir = await bare.makeQuarantine();
    try {
      const env = { ...bare.quarantineEnv(objectDir), GIT_INDEX_FILE: join(objectDir, "index") };
      const tree = await this.#writeTree(tip, input.changes, env);
      if (tip !== null && tree === (await git.text(["rev-parse", `${tip}^{tree}`], env))) return tip;
      const oid = await this.#writeCommit(tree, tip, input, env);
      const pack = await this.#pack(oid, tip, env);
      const updates = [{ name: branchPrefix + mainBranch, old: tip, new: oid }];
      const moved = await acceptance.accept({
        bare,
        objectDir,
        updates,
        pushId: input.pushId,
        pusher: input.pusher,
        traceparent: input.traceparent,
      });
      try {
        await failpoint("repo.commit-accepted");
        await bare.adoptPack(join(objectDir, "pack"), pack);
        await git.run({ args: ["update-ref", branchPrefix + mainBranch, oid], env: bare.env });
      } finally {
        moved();
      }
      return oid;
    } finally {
      await rm(objectDir, { recursive: true, force: true });
    }
  }

  async #writeTree(tip: string | null, changes: readonly FileChange[], env: GitEnv): Promise<string> {
    const { git } = this.#parts;
    if (tip !== null) await git.run({ args: ["read-tree", tip], env });
    const blobs = changes.flatMap(({ content }) =>
      content === undefined ? [] : [Buffer.from(`blob\ndata ${content.byteLength}\n`), content, Buffer.from("\n")],
    );
    await git.run({ args: ["fast-import", "--quiet"], env, input: Buffer.concat(blobs) });
    const index = changes.map(({ path, content }) =>
      content === undefined ? `0 ${"0".repeat(40)}\t${path}\0` : `100644 ${blobOid(content)}\t${path}\0`,
    );
    // git passes over a path it would not check out, and says so only there.
    const { code, stderr } = await git.run({
      args: ["update-index", "-z", "--index-info"],
      env,
      input: index.join(""),
      accept: [0, 128],
    });
    if (code !== 0 || stderr.trim() !== "")
      throw codedError("INVALID_INPUT", `git refuses a path of the commit: ${stderr.trim().slice(0, 300)}`);
    return await git.text(["write-tree"], env);
  }

  async #writeCommit(tree: string, tip: string | null, { message, author }: CommitInput, env: GitEnv): Promise<string> {
    // Without the sign git reads a small number as a year.
    const date = `@${Math.floor(this.#parts.nowMs() / 1000)} +0000`;
    const identity = {
      GIT_AUTHOR_NAME: author.name,
      GIT_AUTHOR_EMAIL: author.email,
      GIT_AUTHOR_DATE: date,
      GIT_COMMITTER_NAME: author.name,
      GIT_COMMITTER_EMAIL: author.email,
      GIT_COMMITTER_DATE: date,
    };
    const { output } = await this.#parts.git.run({
      args: ["commit-tree", tree, ...(tip === null ? [] : ["-p", tip])],
      env: { ...env, ...identity },
      input: message,
    });
    return output.toString("utf8").trim();
  }

  /** One self-contained pack of what is new, checked as a push is. Answers its name. */
  async #pack(oid: string, tip: string | null, env: GitEnv): Promise<string> {
    const { git } = this.#parts;
    const folder = join(env["GIT_OBJECT_DIRECTORY"]!, "pack");
    // What was written so far moves out of the way: the quarantine's one pack holds all of it.
    const wanted = `${oid}\n${tip === null ? "" : `^${tip}\n`}`;
    const { output } = await git.run({ args: ["pack-objects", "--revs", "--stdout", "--quiet"], env, input: wanted });
    await rm(folder, { recursive: true, force: true });
    const alone = {
      GIT_DIR: env["GIT_DIR"]!,
      GIT_OBJECT_DIRECTORY: env["GIT_OBJECT_DIRECTORY"]!,
      GIT_ALTERNATE_OBJECT_DIRECTORIES: env["GIT_ALTERNATE_OBJECT_DIRECTORIES"]!,
    };
    const listing = await git.run({ args: ["index-pack", "--strict", "--stdin"], env: alone, input: output });
    const name = /[0-9a-f]{40}/.exec(listing.output.toString("utf8"))?.[0];
    if (name === undefined) throw codedError("INTERNAL", "git named no pack");
    return `pack-${name}`;
  }
}

/** The id git gives to a file's content. */
function blobOid(content: Uint8Array): string {
  return createHash("sha1").update(`blob ${content.byteLength}\0`).update(content).digest("hex");
}

function checkInput({ message, changes, author }: CommitInput): void {
  const refuse = (problem: string): never => {
    throw codedError("INVALID_INPUT", problem);
  };
  if (message.trim() === "") refuse("a commit needs a message");
  if (Buffer.byteLength(message) > maxMessageBytes)
    refuse(`the message has ${Buffer.byteLength(message)} bytes; at most ${maxMessageBytes} are taken`);
  if (message.includes("\0") || !message.isWellFormed()) refuse("the message holds a NUL or a lone surrogate");
  for (const [what, text] of [
    ["name", author.name],
    ["email", author.email],
  ] as const) {
    if (text.replace(/[<>"'.,;:\\\s]/g, "") === "" || text.length > 256 || /[\u0000-\u001f<>]/.test(text) || !text.isWellFormed())
      refuse(`the author's ${what} ${JSON.stringify(text.slice(0, 80))} is empty, too long or holds characters git does not keep`);
  }
  if (changes.length < 1 || changes.length > maxChanges)
    refuse(`the commit has ${changes.length} changes; 1 to ${maxChanges} are taken`);
  const seen = new Set<string>();
  for (const { path } of changes) {
    const problem = pathProblem(path) ?? (seen.has(path) ? "is changed twice" : null);
    if (problem !== null) refuse(`path ${JSON.stringify(path.slice(0, 120))} ${problem}`);
    seen.add(path);
  }
}

function pathProblem(path: string): string | null {
  if (path === "") return "is empty";
  if (!path.isWellFormed() || /[\u0000-\u001f\u007f\\]/.test(path))
    return "holds a control character, a backslash or a lone surrogate";
  if (Buffer.byteLength(path) > maxPathBytes) return `is longer than ${maxPathBytes} bytes`;
  for (const part of path.split("/")) {
    if (part === "" || part === "." || part === "..")
      return `holds the segment ${JSON.stringify(part)}; write a path relative to the root`;
    if (/^\.git$/i.test(part)) return "leads into git's own folder";
  }
  return null;
}
