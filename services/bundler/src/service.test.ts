import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BuildServiceClient, type Bundle } from "@iterate-platform/proto/iterate/bundler/v1/build";
import { RepoServiceClient } from "@iterate-platform/proto/iterate/bundler/v1/repo";
import { ContextServiceService, type AppendRequest } from "@iterate-platform/proto/iterate/context/v1/context";
import { createGrpcServer, type GrpcServer } from "@iterate-platform/service/grpc-server";
import { createClient } from "@iterate-platform/service/grpc-client";
import { newId, partitionOf } from "@iterate-platform/service/ids";
import { generateKeys, type KeyFiles } from "@iterate-platform/service/keys";
import { createLog } from "@iterate-platform/service/log";
import { migrate } from "@iterate-platform/service/migrations";
import { Trust } from "@iterate-platform/service/trust";
import { eventually, useTestDatabase } from "@iterate-platform/testing";
import { codedError } from "iterate/lib";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { gitClient } from "./api/repo-host.fixture.js";
import { startProcess, type RunningProcess } from "./process.fixture.js";

const database = useTestDatabase();
const owner = newId("prj");
const repo = { owner, path: "/repos/config" };

let folder: string;
let keys: KeyFiles;
let contextServer: GrpcServer;
let contextUrl: string;
let worker: RunningProcess;
let bundler: RunningProcess;
let ingress: Trust;
let runner: Trust;

/** What the log was told, and whether it answers. */
const told: AppendRequest[] = [];
let isAway = false;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "bundler-service-"));
  keys = await generateKeys({ directory: join(folder, "keys"), services: ["bundler", "context", "ingress", "runner"] });
  const trust = (service: string) => Trust.load({ service, keyFile: keys.keyFile(service), trustedKeysFile: keys.trustedKeysFile });
  [ingress, runner] = [await trust("ingress"), await trust("runner")];
  contextServer = createGrpcServer({
    name: "context",
    listen: { variable: "GRPC_LISTEN", host: "127.0.0.1", port: 0 },
    log: createLog("context", { level: "error" }),
    trust: await trust("context"),
  });
  contextServer.add(
    ContextServiceService,
    {
      append: (request) => {
        if (isAway) throw codedError("UNAVAILABLE", "away");
        const key = request.events[0]!.idempotencyKey;
        const existing = told.some(({ events }) => events[0]!.idempotencyKey === key);
        if (!existing) told.push(request);
        return { receipts: [{ offset: 1n, createdAtUs: 0n, existing }] };
      },
    },
    { append: { services: ["bundler"], execution: "refused" } },
  );
  contextUrl = `http://127.0.0.1:${await contextServer.start()}`;
  await migrate({ url: database.url, dir: join(import.meta.dirname, "..", "migrations") });
  worker = await startProcess("worker-main.ts", { ITERATE_TRUSTED_KEYS_FILE: keys.trustedKeysFile, GRPC_LISTEN: "127.0.0.1:0" });
  bundler = await startBundler();
}, 90_000);

afterAll(async () => {
  for (const running of [bundler, worker]) running?.signal("SIGKILL");
  await contextServer?.drain(100);
  rmSync(folder, { recursive: true, force: true });
});

beforeEach(() => {
  isAway = false;
  told.length = 0;
});

function startBundler(more: Readonly<Record<string, string>> = {}): Promise<RunningProcess> {
  return startProcess("main.ts", {
    DATABASE_URL: database.url,
    ITERATE_TRUSTED_KEYS_FILE: keys.trustedKeysFile,
    ITERATE_SERVICE_KEY_FILE: keys.keyFile("bundler"),
    CONTEXT_URL: contextUrl,
    BUILD_WORKER_URL: `http://127.0.0.1:${worker.ports["grpc"]}`,
    ...more,
  });
}

const grpcUrl = () => `http://127.0.0.1:${bundler.ports["grpc"]}`;
const repos = (trust: Trust) => createClient(RepoServiceClient, grpcUrl(), { trust, audience: "bundler" });
const builds = (trust: Trust) => createClient(BuildServiceClient, grpcUrl(), { trust, audience: "bundler" });

async function git(cwd: string, ...args: string[]) {
  const token = await ingress.serviceToken("bundler");
  return await gitClient(
    cwd,
    "-c",
    `http.extraHeader=authorization: Bearer ${token}`,
    "-c",
    "http.extraHeader=x-iterate-principal: ada",
    ...args,
  );
}

const remote = (path: string) => `http://127.0.0.1:${bundler.ports["http"]}/git/${owner}/${encodeURIComponent(path)}`;

async function cloned(path: string, name: string): Promise<string> {
  await git(folder, "clone", "--quiet", remote(path), name);
  return join(folder, name);
}

async function committed(cwd: string, file: string, content: string): Promise<string> {
  writeFileSync(join(cwd, file), content);
  await git(cwd, "add", "-A");
  await git(cwd, "commit", "--quiet", "-m", `change ${file}`);
  return (await git(cwd, "rev-parse", "HEAD")).stdout.trim();
}

const execution = (of: string) =>
  runner.mintExecution({
    owner: of,
    context: "/",
    code: "config@x",
    partition: partitionOf(of, "/"),
    epoch: 1,
    cause: { chain: "c", depth: 0 },
    scope: [],
    exp: Math.floor(Date.now() / 1000) + 60,
  });

async function build(commit: string, at = repo): Promise<{ stages: string[]; bundle: Bundle }> {
  const stages: string[] = [];
  for await (const { step } of builds(runner).build({ repo: at, commit })) {
    if (step?.$case === "progress") stages.push(step.value.stage);
    if (step?.$case === "bundle") return { stages, bundle: step.value };
  }
  throw new Error("no bundle");
}

describe("the bundler", () => {
  it("takes a push, tells the log once, builds the commit and gives out its modules", async () => {
    const cwd = await cloned(repo.path, "first");
    writeFileSync(join(cwd, "p.ts"), `import { z } from "zod"; export class P { s = z.string() }`);
    const oid = await committed(cwd, "iterate.toml", `[processors.p]\nmodule = "p.ts"\nclass = "P"\ncontext = "/x"\n`);
    await git(cwd, "push", "--quiet", "origin", "main");

    await eventually(() => told.length === 1);
    const { context, events } = told[0]!;
    expect(context).toEqual({ owner, path: "/repos/config" });
    expect(events[0]).toMatchObject({
      type: "events.iterate.com/repo/commit-completed",
      idempotencyKey: "repo/ref:/repos/config:1",
    });
    expect(JSON.parse(events[0]!.payload!.toString())).toEqual({
      path: "/repos/config",
      branch: "main",
      commitOid: oid,
      parentOid: null,
      message: "change iterate.toml",
      changedPaths: ["iterate.toml", "p.ts"],
      pusher: "ada",
    });

    const { stages, bundle } = await build(oid);
    expect(stages).toEqual(["read", "bundle", "store"]);
    expect(bundle).toMatchObject({
      commit: oid,
      mainModule: "",
      cached: false,
      entries: [{ file: "p.ts", module: "p.js", classes: ["P"] }],
      processors: [{ name: "p", file: "p.ts", className: "P", context: "/x" }],
    });
    expect((await build(oid)).bundle).toEqual({ ...bundle, cached: true });

    const modules = new Map<string, Buffer>();
    for await (const { step } of builds(runner).getBundle({ owner, digest: bundle.digest })) {
      if (step?.$case === "chunk")
        modules.set(step.value.name, Buffer.concat([modules.get(step.value.name) ?? Buffer.alloc(0), step.value.data]));
    }
    expect([...modules.keys()]).toEqual(["p.js", "p.js.map"]);
    expect(modules.get("p.js")!.toString()).toContain("var P = class");
  });

  it("commits, reads, lists and tells history without a git client", async () => {
    const client = repos(ingress);
    const at = { owner, path: "/repos/files" };
    expect(await client.getTip({ repo: at, branch: "" })).toEqual({ oid: "" });
    await expect(client.readFile({ repo: at, path: "a", commit: "" })).rejects.toMatchObject({ code: "NOT_FOUND" });
    const { oid } = await client.commitFiles(
      { repo: at, message: "Begin", changes: [{ path: "a.txt", content: Buffer.from("hello") }], author: undefined, parent: "" },
      { principal: "ada@example.com" },
    );
    expect(await client.getTip({ repo: at, branch: "main" })).toEqual({ oid });
    expect((await client.readFile({ repo: at, path: "a.txt", commit: "" })).content.toString()).toBe("hello");
    expect(await client.listFiles({ repo: at, commit: oid })).toEqual({ paths: ["a.txt"], commit: oid });
    expect((await client.listCommits({ repo: at, from: "", limit: 0 })).commits).toMatchObject([
      { oid, message: "Begin", author: { name: "ada@example.com", email: "ada@example.com" }, parents: [] },
    ]);
    await expect(
      client.commitFiles({
        repo: at,
        message: "Again",
        changes: [{ path: "b.txt", content: Buffer.from("") }],
        author: undefined,
        parent: "",
      }),
    ).rejects.toMatchObject({ code: "NOT_FAST_FORWARD" });
  });

  it("refuses with file and line over gRPC", async () => {
    const { oid } = await repos(ingress).commitFiles({
      repo,
      message: "Break",
      changes: [{ path: "p.ts", content: Buffer.from(`\nimport "left-pad";`) }],
      author: undefined,
      parent: undefined,
    });
    await expect(build(oid)).rejects.toMatchObject({
      code: "BUILD_FAILED",
      message: expect.stringMatching(/^p\.ts:2:8: the package "left-pad" is not available/),
    });
  });

  it("lets no service do what it has no rule for, and no project's code touch another's", async () => {
    const other = await execution(newId("prj"));
    const own = await execution(owner);
    const client = repos(runner);
    await expect(client.getTip({ repo, branch: "" }, { execution: other })).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(
      client.commitFiles(
        { repo, message: "x", changes: [{ path: "x", content: undefined }], author: undefined, parent: undefined },
        { execution: other },
      ),
    ).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(client.getTip({ repo, branch: "" }, { execution: own })).resolves.toMatchObject({
      oid: expect.stringMatching(/^[0-9a-f]{40}$/),
    });
    await expect(async () => {
      for await (const _ of builds(runner).getBundle({ owner, digest: "a".repeat(64) }, { execution: other })) void _;
    }).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(async () => {
      for await (const _ of builds(ingress).getBundle({ owner, digest: "a".repeat(64) })) void _;
    }).rejects.toMatchObject({ code: "FORBIDDEN" });
    expect((await fetch(`${remote(repo.path)}/info/refs?service=git-upload-pack`)).status).toBe(401);
  });

  it("killed between the transaction and everything after it has lost nothing and tells it once", async () => {
    bundler.signal("SIGKILL");
    await bundler.exited;
    bundler = await startBundler({ FAILPOINTS: "repo.accepted=kill" });
    const cwd = await cloned("/repos/killed", "killed");
    const oid = await committed(cwd, "a.ts", "a");
    await expect(git(cwd, "push", "--quiet", "origin", "main")).rejects.toThrow();
    await bundler.exited;

    bundler = await startBundler();
    await eventually(() => told.length === 1, { timeoutMs: 40_000 });
    expect(JSON.parse(told[0]!.events[0]!.payload!.toString())).toMatchObject({ commitOid: oid });
    const again = await cloned("/repos/killed", "after-kill");
    expect(readFileSync(join(again, "a.ts"), "utf8")).toBe("a");
    await git(again, "fsck", "--strict");
  }, 60_000);

  it("tells the log later what it could not be told while it was away", async () => {
    isAway = true;
    const at = { owner, path: "/repos/away" };
    const client = repos(ingress);
    for (const name of ["a", "b", "c"])
      await client.commitFiles({
        repo: at,
        message: name,
        changes: [{ path: name, content: Buffer.from(name) }],
        author: undefined,
        parent: undefined,
      });
    await eventually(() => bundler.lines.some((line) => line.includes("could not be told")));
    expect(told).toHaveLength(0);
    isAway = false;
    await eventually(() => told.length === 3, { timeoutMs: 15_000 });
    expect(told.map(({ events }) => (JSON.parse(events[0]!.payload!.toString()) as { message: string }).message)).toEqual([
      "a",
      "b",
      "c",
    ]);
  });

  it("ends in order at SIGTERM, and leaves no temporary folder", async () => {
    const own = () => readdirSync(tmpdir()).filter((name) => name.startsWith(`iterate-bundler-${bundler.pid}-`));
    expect(own()).toHaveLength(1);
    bundler.signal("SIGTERM");
    expect(await bundler.exited).toBe(0);
    expect(own()).toEqual([]);
    bundler = await startBundler();
  });
});

describe("the build worker", () => {
  it("takes jobs from the bundler alone, and runs each with nothing in its environment", async () => {
    const environments: string[] = [];
    const looking = eventually(
      () => {
        for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
          try {
            if (!readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("job-main")) continue;
            if (Number(readFileSync(`/proc/${pid}/status`, "utf8").match(/PPid:\t(\d+)/)![1]) === worker.pid)
              environments.push(readFileSync(`/proc/${pid}/environ`, "utf8"));
          } catch {
            // It ended meanwhile.
          }
        }
        return environments.length > 0;
      },
      { timeoutMs: 20_000, intervalMs: 5 },
    );
    const { oid } = await repos(ingress).commitFiles({
      repo,
      message: "Mend",
      changes: [{ path: "p.ts", content: Buffer.from("export class P { environment = 1 }") }],
      author: undefined,
      parent: undefined,
    });
    await build(oid);
    await looking;
    expect(new Set(environments)).toEqual(new Set(["TSX_DISABLE_CACHE=1\0"]));
  });

  it("ends in order at SIGTERM", async () => {
    worker.signal("SIGTERM");
    expect(await worker.exited).toBe(0);
  });
});
