/** Pushes a folder as a developer would: a fresh repository, one commit, `git push` over HTTP. */
import { execFile } from "node:child_process";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const pushWithinMs = 60_000;

export interface Push {
  /** Commit that was pushed. */
  readonly oid: string;
  /** What git and the server said. */
  readonly output: string;
}

/** Commits all files of `folder` (but installed packages) and pushes them to `main` of `remote`. Throws with git's own words. */
export async function pushFolder(folder: string, remote: string, token: string, message: string): Promise<Push> {
  const work = await mkdtemp(join(tmpdir(), "iterate-push-"));
  try {
    await cp(folder, work, { recursive: true, filter: (path) => !["node_modules", "dist"].includes(basename(path)) });
    await git(work, ["init", "--quiet", "--initial-branch=main"]);
    await git(work, ["add", "--all"]);
    await git(work, ["commit", "--quiet", "--message", message]);
    const { stdout } = await git(work, ["rev-parse", "HEAD"]);
    const { stderr } = await git(work, ["push", remote, "main"], token);
    return { oid: stdout.trim(), output: stderr };
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** The token goes by the environment: arguments are for everybody on the machine to read. */
async function git(cwd: string, args: readonly string[], token?: string): Promise<{ stdout: string; stderr: string }> {
  const credential =
    token === undefined
      ? {}
      : {
          GIT_CONFIG_COUNT: "1",
          GIT_CONFIG_KEY_0: "http.extraHeader",
          GIT_CONFIG_VALUE_0: `Authorization: Basic ${Buffer.from(`token:${token}`).toString("base64")}`,
        };
  return run("git", [...args], {
    cwd,
    timeout: pushWithinMs,
    env: {
      PATH: process.env.PATH,
      HOME: cwd,
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_TERMINAL_PROMPT: "0",
      GIT_AUTHOR_NAME: "Demo",
      GIT_AUTHOR_EMAIL: "demo@example.com",
      GIT_COMMITTER_NAME: "Demo",
      GIT_COMMITTER_EMAIL: "demo@example.com",
      ...credential,
    },
  });
}
