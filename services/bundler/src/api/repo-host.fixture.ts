/** A repository host on real Postgres, git and HTTP, for tests: start it again on another folder and only Postgres is left of it. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { authorize, type Caller } from "@iterate-platform/service/caller";
import { createLog } from "@iterate-platform/service/log";
import { migrate } from "@iterate-platform/service/migrations";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { GitHttp, gitPolicy } from "./git-http.js";
import { BlobStore } from "../blob/blob-store.js";
import { JobQueue } from "../build/job-queue.js";
import { Acceptance } from "../repo/acceptance.js";
import { Compactor } from "../repo/compaction.js";
import { Committer } from "../repo/commit.js";
import { repoLimits, type RepoLimits } from "../repo/contract.js";
import { Git } from "../repo/git.js";
import { Reader } from "../repo/reader.js";
import { installReceiveHook } from "../repo/receive-hook.js";
import { RepoCache } from "../repo/repo-cache.js";
import { SmartHttp } from "../repo/smart-http.js";

export const owner = "prj_test";
export const configRepo = { owner, path: "/repos/config" };

export interface RepoHost {
  readonly db: Pool;
  readonly blobs: BlobStore;
  readonly git: Git;
  readonly repos: RepoCache;
  readonly committer: Committer;
  readonly reader: Reader;
  readonly compactor: Compactor;
  readonly root: string;
  readonly origin: string;
  /** Address of a repository for a git client. */
  url(path?: string): string;
  stop(): Promise<void>;
}

export interface RepoHostOptions {
  readonly limits?: Partial<RepoLimits>;
  /** Caller that every request counts as. */
  readonly service?: string;
  readonly deadlineMs?: number;
  readonly maxPacks?: number;
}

export async function startRepoHost(databaseUrl: string, options: RepoHostOptions = {}): Promise<RepoHost> {
  await migrate({ url: databaseUrl, dir: join(import.meta.dirname, "..", "..", "migrations") });
  const db = createPool({ url: databaseUrl, applicationName: "bundler-test", max: 4 });
  const root = mkdtempSync(join(tmpdir(), "bundler-repos-"));
  const log = createLog("bundler", { level: "error" });
  const limits = { ...repoLimits, ...options.limits };
  const git = new Git({
    limits: { cpuS: 60, memoryMiB: 1024, maxWriteBytes: 1024 ** 3 },
    searchPath: process.env["PATH"] ?? "/usr/bin",
  });
  const blobs = new BlobStore(db);
  const compactor = new Compactor({ db, blobs, git, log, maxPacks: options.maxPacks ?? 64 });
  const acceptance = new Acceptance({ db, blobs, git, limits, onAccepted: (bare) => compactor.consider(bare) });
  const repos = new RepoCache(root, { db, blobs, git });
  const smartHttp = new SmartHttp({
    git,
    acceptance,
    hooksPath: await installReceiveHook(root),
    maxPackBytes: limits.maxPackBytes,
    deadlineMs: options.deadlineMs ?? 60_000,
    log,
  });
  const queue = new JobQueue({ maxRunning: 8, maxWaiting: 32 });
  const gitHttp = new GitHttp({
    repos,
    smartHttp,
    queue,
    authenticate: (request) => admit(request, { service: options.service ?? "ingress", principal: "ada" }),
    log,
  });
  const server = createServer((request, response) => void gitHttp.handle(request, response));
  const origin = await listen(server);
  return {
    db,
    blobs,
    git,
    repos,
    committer: new Committer({ git, acceptance, nowMs: () => Date.parse("2030-01-02T03:04:05Z") }),
    reader: new Reader(git),
    compactor,
    root,
    origin,
    url: (path = configRepo.path) => `${origin}/git/${owner}/${encodeURIComponent(path)}`,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await compactor.idle();
      await db.end();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

/** The listener's own rule, for a caller that is taken as proven. */
async function admit(request: IncomingMessage, caller: Caller): Promise<Caller> {
  authorize(`${request.method} ${request.url}`, gitPolicy, caller);
  return caller;
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** An ordinary git client, as a developer has one. */
export async function gitClient(cwd: string, ...args: string[]): Promise<{ stdout: string; stderr: string }> {
  const env = {
    PATH: process.env["PATH"],
    HOME: cwd,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_TERMINAL_PROMPT: "0",
    GIT_AUTHOR_NAME: "Grace",
    GIT_AUTHOR_EMAIL: "grace@example.com",
    GIT_COMMITTER_NAME: "Grace",
    GIT_COMMITTER_EMAIL: "grace@example.com",
  };
  return await promisify(execFile)("git", ["-c", "init.defaultBranch=main", "-c", "protocol.version=2", ...args], {
    cwd,
    env,
    timeout: 60_000,
    maxBuffer: 16 * 1024 * 1024,
  });
}
