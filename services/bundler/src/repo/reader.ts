/** Reads commits: one file, all paths, history, and the whole tree with its contents. */
import { codedError } from "iterate/lib";
import type { TreeEntry } from "../build/digest.js";
import type { BareRepo } from "./bare-repo.js";
import { assertOid } from "./contract.js";
import type { Git } from "./git.js";

export interface CommitInfo {
  readonly oid: string;
  readonly message: string;
  readonly author: { readonly name: string; readonly email: string };
  /** Author time, seconds since the Unix epoch. */
  readonly timeS: number;
  readonly parents: readonly string[];
}

/** An entry with the size of its content. */
export interface SizedTreeEntry extends TreeEntry {
  readonly size: number;
}

/** A response has 4 MiB; a file or a listing that does not fit is fetched with git. */
const maxAnswerBytes = 4 * 1024 * 1024 - 64 * 1024;

/** Longest message of a history answer, bytes; 200 of them fit a response. */
const maxLogMessageLength = 4096;
const maxTreeListingBytes = 64 * 1024 * 1024;

export class Reader {
  readonly #git: Git;

  constructor(git: Git) {
    this.#git = git;
  }

  /** Throws NOT_FOUND when the repository has no such commit, INVALID_INPUT when the text is no commit id. */
  async assertCommit(bare: BareRepo, commit: string): Promise<void> {
    assertOid(commit, "commit");
    const { code, output } = await this.#git.run({ args: ["cat-file", "-t", commit], env: bare.env, accept: [0, 128] });
    if (code !== 0 || output.toString("utf8").trim() !== "commit")
      throw codedError("NOT_FOUND", `${bare.repo.path} has no commit ${commit}`, { commit });
  }

  /** Content of a file, or of a symbolic link its target. Throws NOT_FOUND; INVALID_INPUT when it does not fit an answer. */
  async file(bare: BareRepo, commit: string, path: string): Promise<Buffer> {
    await this.assertCommit(bare, commit);
    if (path === "" || path.includes("\0")) throw codedError("INVALID_INPUT", "a file's path is not empty and holds no NUL");
    const missing = codedError("NOT_FOUND", `commit ${commit} has no file ${JSON.stringify(path.slice(0, 200))}`, {
      commit,
      path: path.slice(0, 200),
    });
    const listing = await this.#git.run({
      args: ["ls-tree", "-z", "-l", "--full-tree", commit, "--", path],
      env: { ...bare.env, GIT_LITERAL_PATHSPECS: "1" },
      accept: [0, 128],
    });
    const entry = parseTree(listing.output).find((entry) => entry.path === path && isBlob(entry));
    if (entry === undefined) throw missing;
    if (entry.size > maxAnswerBytes)
      throw codedError(
        "INVALID_INPUT",
        `${JSON.stringify(path.slice(0, 200))} has ${entry.size} bytes; at most ${maxAnswerBytes} are answered: fetch it with git`,
      );
    return (await this.#git.run({ args: ["cat-file", "blob", entry.oid], env: bare.env })).output;
  }

  /** All paths, sorted. */
  async paths(bare: BareRepo, commit: string): Promise<string[]> {
    await this.assertCommit(bare, commit);
    const { output } = await this.#git.run({
      args: ["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit],
      env: bare.env,
      maxOutputBytes: maxAnswerBytes,
    });
    return output.toString("utf8").split("\0").slice(0, -1).sort();
  }

  /** History from `commit`, newest first. */
  async log(bare: BareRepo, commit: string, limit: number): Promise<CommitInfo[]> {
    await this.assertCommit(bare, commit);
    const { output } = await this.#git.run({
      args: ["log", "-z", `--max-count=${limit}`, "--no-show-signature", "--format=%H%n%P%n%at%n%an%n%ae%n%B", commit],
      env: bare.env,
    });
    return output
      .toString("utf8")
      .split("\0")
      .filter((record) => record !== "")
      .map((record) => {
        const [oid, parents, timeS, name, email, ...message] = record.split("\n");
        return {
          oid: oid!,
          parents: parents === "" ? [] : parents!.split(" "),
          timeS: Number(timeS),
          author: { name: name!.slice(0, 256), email: email!.slice(0, 256) },
          message: message.join("\n").trimEnd().slice(0, maxLogMessageLength).toWellFormed(),
        };
      });
  }

  /** Every entry of the commit's tree: files, symbolic links and submodules. Contents are not read. */
  async tree(bare: BareRepo, commit: string): Promise<SizedTreeEntry[]> {
    await this.assertCommit(bare, commit);
    const { output } = await this.#git.run({
      args: ["ls-tree", "-r", "-z", "-l", "--full-tree", commit],
      env: bare.env,
      maxOutputBytes: maxTreeListingBytes,
    });
    return parseTree(output);
  }

  /** Contents of the entries, in their order. The caller has bounded their sizes. */
  async contents(bare: BareRepo, entries: readonly SizedTreeEntry[]): Promise<Buffer[]> {
    if (entries.length === 0) return [];
    const expected = entries.reduce((sum, entry) => sum + entry.size + 128, 0);
    const { output } = await this.#git.run({
      args: ["cat-file", "--batch=%(objectsize)"],
      env: bare.env,
      input: entries.map(({ oid }) => `${oid}\n`).join(""),
      maxOutputBytes: expected,
    });
    let at = 0;
    return entries.map(({ size, path }) => {
      const line = output.indexOf(10, at);
      if (Number(output.toString("latin1", at, line)) !== size)
        throw codedError("INTERNAL", `git answered another size for ${path}`);
      const content = output.subarray(line + 1, line + 1 + size);
      at = line + 1 + size + 1;
      return content;
    });
  }
}

/** A file or a symbolic link: no folder and no submodule. */
const isBlob = ({ mode }: TreeEntry): boolean => mode.startsWith("1") && mode !== "160000";

/** Lines of `ls-tree -z -l`: mode, type, oid, padded size, tab, path. A submodule has no size. */
function parseTree(output: Buffer): SizedTreeEntry[] {
  return output
    .toString("utf8")
    .split("\0")
    .slice(0, -1)
    .map((line) => {
      const tab = line.indexOf("\t");
      const [mode, , oid, size] = line.slice(0, tab).split(/ +/);
      return { mode: mode!, oid: oid!, size: size === "-" ? 0 : Number(size), path: line.slice(tab + 1) };
    });
}
