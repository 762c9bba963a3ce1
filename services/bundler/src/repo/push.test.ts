import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomBytes } from "node:crypto";
import { failpoints } from "@iterate-platform/service/failpoints";
import { useTestDatabase } from "@iterate-platform/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { buildLimits } from "../build/contract.js";
import { selectSources } from "../build/sources.js";
import { configRepo, gitClient, owner, startRepoHost, type RepoHost, type RepoHostOptions } from "../api/repo-host.fixture.js";

const database = useTestDatabase();

let host: RepoHost;
let folder: string;
const hosts: RepoHost[] = [];

async function start(options: RepoHostOptions = {}): Promise<RepoHost> {
  const started = await startRepoHost(database.url, options);
  hosts.push(started);
  return started;
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "push-test-"));
  host = await start();
});
afterEach(async () => {
  failpoints.set("");
  await host.db.query("truncate repo, ref, pack, ref_update, blob, blob_chunk, build, build_module");
  for (const started of hosts.splice(0)) await started.stop();
  rmSync(folder, { recursive: true, force: true });
});

const git = (cwd: string, ...args: string[]) => gitClient(cwd, ...args);

async function clone(name: string, from: RepoHost = host): Promise<string> {
  await git(folder, "clone", "--quiet", from.url(), name);
  return join(folder, name);
}

async function commit(cwd: string, file: string, content: string | Buffer, message = `change ${file}`): Promise<string> {
  writeFileSync(join(cwd, file), content);
  await git(cwd, "add", "-A");
  await git(cwd, "commit", "--quiet", "-m", message);
  return (await git(cwd, "rev-parse", "HEAD")).stdout.trim();
}

const push = (cwd: string, ...args: string[]) => git(cwd, "push", "--quiet", "origin", ...(args.length === 0 ? ["main"] : args));

/** What the pusher reads when git says no. */
async function refusedPush(cwd: string, ...args: string[]): Promise<string> {
  const result = await push(cwd, ...args).catch((error: { stderr: string }) => error);
  if (!(result instanceof Error)) throw new Error("the push was accepted");
  return result.stderr;
}

async function journal(): Promise<
  { seq: string; name: string; old_oid: string | null; new_oid: string | null; pusher: string; fact: string | null }[]
> {
  return (
    await host.db.query<Awaited<ReturnType<typeof journal>>[number]>(
      "select seq, name, old_oid, new_oid, pusher, fact from ref_update order by repo_id, seq",
    )
  ).rows;
}

describe("a push", () => {
  it("to a repository that was never written makes it, and a clone elsewhere has the same commits", async () => {
    const a = await clone("a");
    const first = await commit(a, "iterate.toml", "", "Begin\n\nwith a body");
    await push(a);
    const second = await commit(a, "worker.ts", "export {}");
    await push(a);

    const b = await clone("b");
    expect((await git(b, "rev-parse", "HEAD")).stdout.trim()).toBe(second);
    expect(readdirSync(b).sort()).toEqual([".git", "iterate.toml", "worker.ts"]);

    const rows = await journal();
    expect(rows.map(({ seq, name, old_oid, new_oid, pusher }) => [seq, name, old_oid, new_oid, pusher])).toEqual([
      ["1", "refs/heads/main", null, first, "ada"],
      ["2", "refs/heads/main", first, second, "ada"],
    ]);
    expect(JSON.parse(rows[0]!.fact!)).toEqual({
      path: "/repos/config",
      branch: "main",
      commitOid: first,
      parentOid: null,
      message: "Begin\n\nwith a body",
      changedPaths: ["iterate.toml"],
      pusher: "ada",
    });
    expect(JSON.parse(rows[1]!.fact!)).toMatchObject({ parentOid: first, changedPaths: ["worker.ts"] });
  });

  it("is told where each branch is now and what is built", async () => {
    const a = await clone("a");
    const oid = (await commit(a, "iterate.toml", "")).slice(0, 12);
    const { stderr } = await push(a, "main", "main:topic");
    expect(stderr).toContain(`remote: main is now ${oid}; it is built now`);
    expect(stderr).toContain(`remote:   iterate events tail --project ${owner} --after 0`);
    expect(stderr).toContain(`remote: topic is now ${oid}; it is stored and not built: only main is.`);
  });

  it("survives the loss of the volume: a clone from an empty folder is equal", async () => {
    const a = await clone("a");
    await commit(a, "one.ts", "1");
    await push(a);
    await commit(a, "two.bin", randomBytes(3 * 1024 * 1024));
    await push(a);
    await git(a, "checkout", "--quiet", "-b", "feature/x");
    await commit(a, "three.ts", "3");
    await push(a, "feature/x");

    const other = await start();
    const b = await clone("b", other);
    const refs = async (cwd: string) => (await git(cwd, "ls-remote", "origin")).stdout;
    expect(await refs(b)).toBe(await refs(a));
    expect(readFileSync(join(b, "two.bin")).equals(readFileSync(join(a, "two.bin")))).toBe(true);
    await git(b, "fsck", "--strict");
  });

  it("larger than git's buffer is streamed in", async () => {
    const a = await clone("a");
    await commit(a, "large.bin", randomBytes(8 * 1024 * 1024));
    await push(a);
    const b = await clone("b");
    expect(readFileSync(join(b, "large.bin")).equals(readFileSync(join(a, "large.bin")))).toBe(true);
  });

  it("that does not follow main is refused with NOT_FAST_FORWARD and both commits, forced or not", async () => {
    const [a, b] = [await clone("a"), await clone("b")];
    const first = await commit(a, "a.ts", "a");
    await push(a);
    await commit(b, "b.ts", "b");
    expect(await refusedPush(b)).toMatch(/rejected.*fetch first/s);
    await git(b, "fetch", "--quiet", "origin");
    const ours = (await git(b, "rev-parse", "HEAD")).stdout.trim();
    expect(await refusedPush(b, "--force", "main")).toMatch(
      new RegExp(`remote: NOT_FAST_FORWARD: main is at ${first}, which ${ours} does not follow; fetch, merge and push again`),
    );
    expect((await git(a, "ls-remote", "origin", "main")).stdout).toContain(first);
  });

  it("of two at once takes one and refuses the other, and both pods agree", async () => {
    const a = await clone("a");
    await commit(a, "base.ts", "0");
    await push(a);
    const other = await start();
    const clients = await Promise.all(Array.from({ length: 4 }, (_, at) => clone(`c${at}`, at % 2 === 0 ? host : other)));
    const oids = await Promise.all(clients.map((cwd, at) => commit(cwd, `c${at}.ts`, String(at))));
    const results = await Promise.allSettled(clients.map((cwd) => push(cwd)));
    const winners = oids.filter((_, at) => results[at]!.status === "fulfilled");
    expect(winners).toHaveLength(1);
    for (const from of [host, other]) expect((await git(folder, "ls-remote", from.url(), "main")).stdout).toContain(winners[0]);
    expect(await journal()).toHaveLength(2);
  });

  it("may rewrite and remove other branches, but not remove main", async () => {
    const a = await clone("a");
    await commit(a, "a.ts", "a");
    await push(a, "main", "main:topic");
    await git(a, "commit", "--quiet", "--amend", "-m", "again");
    await push(a, "--force", "main:topic");
    await push(a, ":topic");
    expect(await refusedPush(a, ":main")).toMatch(/main cannot be removed/);
    const rows = await journal();
    expect(rows.map(({ name, fact }) => [name, fact === null])).toEqual([
      ["refs/heads/main", false],
      ["refs/heads/topic", false],
      ["refs/heads/topic", false],
      ["refs/heads/topic", true],
    ]);
  });

  it.each([
    ["a tag", ["HEAD:refs/tags/v1"], /refs\/tags\/v1 is not a branch; only refs\/heads\/\* is kept/],
    [
      "a name git would not keep beside another",
      ["HEAD:refs/heads/main/sub"],
      /refs\/heads\/main\/sub and refs\/heads\/main cannot both exist/,
    ],
    ["a name with odd letters", ["HEAD:refs/heads/ümlaut"], /may only have letters/],
  ])("of %s is refused in words", async (_, refs, message) => {
    const a = await clone("a");
    await commit(a, "a.ts", "a");
    await push(a);
    expect(await refusedPush(a, ...refs)).toMatch(message);
    expect(await journal()).toHaveLength(1);
  });

  it("of a file as a branch is refused in words", async () => {
    const a = await clone("a");
    await commit(a, "a.ts", "a");
    await push(a);
    const blob = (await git(a, "rev-parse", "HEAD:a.ts")).stdout.trim();
    expect(await refusedPush(a, `${blob}:refs/heads/odd`)).toMatch(/odd would point at a blob; a branch points at a commit/);
  });

  it("of objects git finds broken is refused and nothing of it is kept", async () => {
    const a = await clone("a");
    await commit(a, "a.ts", "a");
    writeFileSync(
      join(folder, "tree"),
      Buffer.concat([Buffer.from("100644 ..\0"), Buffer.from((await git(a, "rev-parse", "HEAD:a.ts")).stdout.trim(), "hex")]),
    );
    const tree = (await git(a, "hash-object", "-t", "tree", "-w", "--literally", join(folder, "tree"))).stdout.trim();
    const oid = (await git(a, "commit-tree", tree, "-m", "broken")).stdout.trim();
    expect(await refusedPush(a, `${oid}:refs/heads/main`)).toMatch(/hasDotdot|contains '\.\.'/);
    expect((await host.db.query("select 1 from pack")).rows).toHaveLength(0);
  });
});

describe("a limit is told to the pusher and holds exactly:", () => {
  it("the size of a file", async () => {
    const small = await start({ limits: { maxFileBytes: 1000 } });
    const a = await clone("a", small);
    await commit(a, "just.bin", Buffer.alloc(1000));
    await push(a);
    await commit(a, "over.bin", Buffer.alloc(1001));
    expect(await refusedPush(a)).toMatch(/remote: BATCH_TOO_LARGE: "over\.bin" has 1001 bytes; a file may have at most 1000/);
  });

  it("the size of a push", async () => {
    const small = await start({ limits: { maxPackBytes: 10_000 } });
    const a = await clone("a", small);
    await commit(a, "random.bin", randomBytes(20_000));
    expect(await refusedPush(a)).toMatch(/pack exceeds maximum allowed size/);
  });

  it("the number of objects", async () => {
    const small = await start({ limits: { maxPackObjects: 3 } });
    const a = await clone("a", small);
    await commit(a, "a.ts", "a");
    await push(a);
    await commit(a, "b.ts", "b");
    await commit(a, "c.ts", "c");
    expect(await refusedPush(a)).toMatch(/the pack has 6 objects; at most 3/);
  });

  it("the quota of the repository", async () => {
    const small = await start({ limits: { maxRepoBytes: 30_000 } });
    const a = await clone("a", small);
    await commit(a, "a.bin", randomBytes(20_000));
    await push(a);
    await commit(a, "b.bin", randomBytes(20_000));
    expect(await refusedPush(a)).toMatch(/the repository would have \d+ bytes; its quota is 30000/);
  });

  it("the number of branches", async () => {
    const small = await start({ limits: { maxRefs: 2 } });
    const a = await clone("a", small);
    await commit(a, "a.ts", "a");
    await push(a, "main", "main:two");
    expect(await refusedPush(a, "main:three")).toMatch(/would have 3 branches; it may have 2/);
  });
});

describe("a hostile push costs bounded time and memory:", () => {
  it("a file of 40 MiB that packs to nothing is refused by its size", async () => {
    const a = await clone("a");
    execFileSync("truncate", ["-s", "40M", join(a, "bomb.bin")]);
    await git(a, "-c", "core.bigFileThreshold=1m", "add", "bomb.bin");
    rmSync(join(a, "bomb.bin"));
    await git(a, "commit", "--quiet", "-m", "bomb");
    expect(await refusedPush(a)).toMatch(/"bomb\.bin" has 41943040 bytes; a file may have at most/);
  }, 60_000);

  it("a hundred thousand files are kept, and the fact names a thousand of them", async () => {
    const a = await clone("a");
    await commit(a, "a.ts", "a");
    const blob = (await git(a, "rev-parse", "HEAD:a.ts")).stdout.trim();
    writeFileSync(
      join(folder, "tree"),
      Array.from({ length: 100_000 }, (_, at) => `100644 blob ${blob}\tf${String(at).padStart(6, "0")}.ts\n`).join(""),
    );
    const tree = execFileSync("git", ["mktree"], { cwd: a, input: readFileSync(join(folder, "tree")) })
      .toString()
      .trim();
    const oid = (await git(a, "commit-tree", tree, "-m", "many")).stdout.trim();
    await push(a, `${oid}:refs/heads/main`);
    const [row] = await journal();
    expect((JSON.parse(row!.fact!) as { changedPaths: string[] }).changedPaths).toHaveLength(1000);
    const bare = (await host.repos.find(configRepo))!;
    const started = performance.now();
    const entries = await host.reader.tree(bare, oid);
    expect(() => selectSources(entries, buildLimits)).toThrow(/the commit has 100000 files; at most 10000 are built/);
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});

describe("between the transaction and git's own ref move", () => {
  it("a crash is mended at the next opening, and the fact exists once", async () => {
    const a = await clone("a");
    const oid = await commit(a, "a.ts", "a");
    const off = failpoints.on("repo.accepted", () => {
      throw new Error("the process dies here");
    });
    expect(await refusedPush(a)).toMatch(/INTERNAL/);
    off();
    // The push failed for git and its objects are gone from this disk; Postgres has them.
    expect((await git(folder, "ls-remote", host.url(), "main")).stdout).toContain(oid);
    const b = await clone("b");
    expect(readFileSync(join(b, "a.ts"), "utf8")).toBe("a");
    expect(await journal()).toHaveLength(1);
  });

  it("no reader sees the disk ahead of or behind Postgres", async () => {
    const a = await clone("a");
    const first = await commit(a, "a.ts", "a");
    await push(a);
    const other = await start();
    const b = await clone("b", other);
    const second = await commit(b, "b.ts", "b");
    await push(b);
    expect((await git(folder, "ls-remote", host.url(), "main")).stdout).toContain(second);
    expect((await git(folder, "ls-remote", other.url(), "main")).stdout).toContain(second);
    expect(first).not.toBe(second);
  });
});

describe("a repository on disk", () => {
  it("runs no hook and reads no configuration that was pushed or left there", async () => {
    const a = await clone("a");
    await commit(a, ".gitattributes", "* filter=evil\n");
    symlinkSync("/etc/passwd", join(a, "link"));
    await commit(a, "a.ts", "a");
    await push(a);
    const bare = (await host.repos.find(configRepo))!;
    const marker = join(folder, "ran");
    writeFileSync(
      join(bare.dir, "config"),
      `[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfsmonitor = touch ${marker}\n\thooksPath = ${folder}\n[filter "evil"]\n\tclean = touch ${marker}\n`,
    );
    writeFileSync(join(folder, "update"), `#!/bin/sh\ntouch ${marker}\n`, { mode: 0o755 });
    await commit(a, "b.ts", "b");
    await push(a);
    await host.committer.commit(bare, {
      message: "x",
      changes: [{ path: "c.ts", content: Buffer.from("c") }],
      author: { name: "A", email: "a@b" },
      parent: undefined,
      pushId: crypto.randomUUID(),
      pusher: undefined,
      traceparent: undefined,
    });
    expect(readdirSync(folder)).not.toContain("ran");
  });

  it("heals a pack that was cut short", async () => {
    const a = await clone("a");
    await commit(a, "a.bin", randomBytes(10_000));
    await push(a);
    const bare = (await host.repos.find(configRepo))!;
    const packs = join(bare.dir, "objects", "pack");
    const pack = readdirSync(packs).find((file) => file.endsWith(".pack"))!;
    rmSync(join(packs, pack));
    writeFileSync(join(packs, pack), "PACK");
    bare.doubt();
    const b = await clone("b");
    expect(readFileSync(join(b, "a.bin")).equals(readFileSync(join(a, "a.bin")))).toBe(true);
  });
});

describe("the listener", () => {
  it("serves ingress alone", async () => {
    const other = await start({ service: "runner" });
    const response = await fetch(`${other.url()}/info/refs?service=git-upload-pack`);
    expect(response.status).toBe(403);
  });

  it.each([
    ["GET", `/git/${owner}/%2Frepos%2Fconfig/HEAD`, 404],
    ["GET", `/git/${owner}/%2Frepos%2Fconfig/objects/info/packs`, 404],
    ["GET", `/git/${owner}/%2Frepos%2Fconfig/info/refs`, 404],
    ["POST", `/git/${owner}/%2Frepos%2Fconfig/info/refs?service=git-upload-pack`, 404],
    ["GET", `/git/${owner}/%2Frepos%2F..%2Fx/info/refs?service=git-upload-pack`, 400],
    ["GET", `/git/..%2F..%2Fetc/%2Frepos%2Fconfig/info/refs?service=git-upload-pack`, 400],
    ["GET", `/git/${owner}/%2Fagents%2Fx/info/refs?service=git-upload-pack`, 400],
  ])("answers %s %s with %i", async (method, path, status) => {
    expect((await fetch(host.origin + path, { method })).status).toBe(status);
  });

  it("ends a request at its deadline and leaves the repository whole", async () => {
    const slow = await start({ deadlineMs: 300 });
    const a = await clone("a");
    await commit(a, "a.ts", "a");
    await push(a);
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode("0014command=ls-refs\n")),
    });
    const neverEnding = {
      method: "POST",
      headers: { "content-type": "application/x-git-upload-pack-request", "git-protocol": "version=2" },
      body,
      duplex: "half",
    } as RequestInit;
    await expect(fetch(`${slow.url()}/git-upload-pack`, neverEnding).then((answer) => answer.text())).rejects.toThrow();
    await clone("b");
  });
});
