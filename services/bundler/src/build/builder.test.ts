import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { eventually, useTestDatabase } from "@iterate-platform/testing";
import { codedError } from "iterate/lib";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { owner, startRepoHost, type RepoHost } from "../api/repo-host.fixture.js";
import { Builder, type BuildWorker } from "./builder.js";
import { BuildStore } from "./build-store.js";
import { bundle } from "./bundle.js";
import { buildLimits, type BuildLimits, type BuildOutput } from "./contract.js";
import { collectPlatformModules, toolchainDigest, type PlatformModules } from "./platform-modules.js";
import type { Progress } from "./flights.js";

const database = useTestDatabase();
let host: RepoHost;
let platform: PlatformModules;
let store: BuildStore;
beforeAll(async () => {
  host = await startRepoHost(database.url);
  platform = await collectPlatformModules();
  store = new BuildStore(host.db, host.blobs, buildLimits);
});
afterAll(() => host.stop());

let builds = 0;
/** Holds the worker until it is let go. */
let gate: Promise<void> = Promise.resolve();
beforeEach(() => {
  builds = 0;
  gate = Promise.resolve();
});

const worker: BuildWorker = {
  build: async ({ entries, files }, signal): Promise<BuildOutput> => {
    builds += 1;
    await Promise.race([
      gate,
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(codedError("CANCELLED", "ended")))),
    ]);
    return await bundle({ entries, files, platform, limits: buildLimits });
  },
};

const builder = (more: { limits?: BuildLimits; toolchain?: string; worker?: BuildWorker } = {}) =>
  new Builder({
    repos: host.repos,
    reader: host.reader,
    store,
    worker,
    limits: buildLimits,
    toolchain: toolchainDigest(platform),
    ...more,
  });

let repos = 0;
async function commit(files: Readonly<Record<string, string>>, path = `/repos/b${(repos += 1)}`) {
  const bare = await host.repos.make({ owner, path });
  const changes = Object.entries(files).map(([file, content]) => ({ path: file, content: Buffer.from(content) }));
  const oid = await host.committer.commit(bare, {
    message: "x",
    changes,
    author: { name: "A", email: "a@b.c" },
    parent: undefined,
    pushId: crypto.randomUUID(),
    pusher: undefined,
    traceparent: undefined,
  });
  return { repo: { owner, path }, commit: oid };
}

function run(at: { repo: { owner: string; path: string }; commit: string }, by = builder(), signal = new AbortController().signal) {
  const progress: Progress[] = [];
  return { progress, result: by.build({ ...at, signal, onProgress: (step) => progress.push(step) }) };
}

async function modulesOf(digest: string, as = owner): Promise<Record<string, string>> {
  const { modules } = await store.read(as, digest);
  const found: Record<string, string> = {};
  for await (const { name, data } of modules) found[name] = Buffer.from(data).toString();
  return found;
}

const example = (name: string): Record<string, string> => {
  const folder = join(import.meta.dirname, "..", "..", "..", "..", "docs", "examples", name);
  return Object.fromEntries(readdirSync(folder).map((file) => [file, readFileSync(join(folder, file), "utf8")]));
};

const toml = `[processors.p]\nmodule = "p.ts"\nclass = "P"\ncontext = "/x"\n`;

describe("a build", () => {
  it.each([
    ["triage", ["worker.ts", "triage.ts"], [[], ["TriageProcessor", "TriageDurableObject"]]],
    ["minimal", ["worker.ts", "counter.ts"], [[], ["CounterDurableObject"]]],
  ])("of the example %s has its entries, and its modules can be read", async (name, files, classes) => {
    const { progress, result } = run(await commit(example(name)));
    const { bundle: built, cached } = await result;
    expect(cached).toBe(false);
    expect(built.mainModule).toBe("worker.js");
    expect(built.entries.map(({ file }) => file)).toEqual(files);
    expect(built.entries.map((entry) => [...entry.classes].sort())).toEqual(classes.map((list) => [...list].sort()));
    expect(progress.map(({ stage }) => stage)).toEqual(["read", "bundle", "store"]);
    expect(Object.keys(await modulesOf(built.digest)).sort()).toEqual(
      files
        .map((file) => file.replace(".ts", ".js"))
        .flatMap((module) => [module, `${module}.map`])
        .sort(),
    );
  });

  it("of the same tree is there already, whatever commit or repository it is in", async () => {
    const files = { "iterate.toml": toml, "p.ts": "export class P {}" };
    const first = await run(await commit(files)).result;
    const again = await run(await commit(files)).result;
    expect(again).toEqual({ bundle: first.bundle, cached: true });
    expect(builds).toBe(1);
  });

  it("has the same bytes after the cache was wiped", async () => {
    const at = await commit({ ...example("triage"), "unique.md": String(Math.PI) });
    const first = (await run(at).result).bundle;
    const modules = await modulesOf(first.digest);
    await host.db.query("delete from build");
    await host.db.query("update blob set is_complete = false where not exists (select from pack where pack.blob = digest)");
    const second = await run(at).result;
    expect(second).toEqual({ bundle: first, cached: false });
    expect(await modulesOf(second.bundle.digest)).toEqual(modules);
  });

  it("changes the identity of the modules that load a changed file, and of no other", async () => {
    const files = {
      "iterate.toml": `${toml}\n[processors.q]\nmodule = "q.ts"\nclass = "Q"\ncontext = "/x"\n`,
      "p.ts": `import "./lib"; export class P {}`,
      "q.ts": "export class Q {}",
      "lib.ts": "console.log(1)",
      "README.md": "a",
    };
    const identities = async (more: Record<string, string>) =>
      Object.fromEntries(
        (await run(await commit({ ...files, ...more })).result).bundle.entries.map(({ file, identity }) => [file, identity]),
      );
    const before = await identities({});
    const after = await identities({ "lib.ts": "console.log(2)" });
    expect(after["q.ts"]).toBe(before["q.ts"]);
    expect(after["p.ts"]).not.toBe(before["p.ts"]);
    expect(await identities({ "README.md": "b", "q.ts": "// a remark\nexport class Q {}" })).toEqual(before);
  });

  it("asked for by many at once is made once, and each is told its progress", async () => {
    let open!: () => void;
    gate = new Promise((resolve) => (open = resolve));
    const at = await commit({ "iterate.toml": toml, "p.ts": "export class P { many = 1 }" });
    const one = builder();
    const runs = Array.from({ length: 8 }, () => run(at, one));
    await eventually(() => builds === 1 && runs.every(({ progress }) => progress.some(({ stage }) => stage === "bundle")));
    open();
    const results = await Promise.all(runs.map(({ result }) => result));
    expect(new Set(results.map(({ bundle }) => bundle.digest)).size).toBe(1);
    expect(builds).toBe(1);
  });

  it("goes on when one of those who wait leaves, and ends when the last does", async () => {
    gate = new Promise(() => undefined);
    const at = await commit({ "iterate.toml": toml, "p.ts": "export class P { leaving = 1 }" });
    const one = builder();
    const [stays, leaves] = [new AbortController(), new AbortController()];
    const first = run(at, one, stays.signal);
    await eventually(() => builds === 1);
    const second = run(at, one, leaves.signal);
    await eventually(() => second.progress.length > 1);
    leaves.abort();
    await expect(second.result).rejects.toMatchObject({ code: "CANCELLED" });
    stays.abort();
    await expect(first.result).rejects.toMatchObject({ code: "CANCELLED" });
    gate = Promise.resolve();
    await expect(run(at, one).result).resolves.toMatchObject({ cached: false });
    expect(builds).toBe(2);
  });

  it("is keyed by the toolchain", async () => {
    const at = await commit({ "iterate.toml": toml, "p.ts": "export class P { toolchain = 1 }" });
    await run(at).result;
    expect((await run(at, builder({ toolchain: "another" })).result).cached).toBe(false);
  });

  it("without anything to run is empty", async () => {
    expect((await run(await commit({ "iterate.toml": "" })).result).bundle).toMatchObject({
      mainModule: null,
      entries: [],
      processors: [],
    });
    expect(builds).toBe(0);
  });
});

describe("a build is refused", () => {
  it.each<[string, Record<string, string>, RegExp]>([
    ["without a manifest", { "a.ts": "" }, /^iterate\.toml: the repo has no iterate\.toml/],
    [
      "for a class that is not exported",
      { "iterate.toml": toml, "p.ts": "export class Other {}; class P {}" },
      /^iterate\.toml: \[processors\.p\] class P is not exported by p\.ts; it exports Other/,
    ],
    ["for a class that is no class", { "iterate.toml": toml, "p.ts": "export const P = 1" }, /it exports no class by name/],
    [
      "for an unknown package",
      { "iterate.toml": toml, "p.ts": `import "left-pad"; export class P {}` },
      /^p\.ts:1:8: the package "left-pad"/,
    ],
  ])("%s", async (_, files, message) => {
    await expect(run(await commit(files)).result).rejects.toMatchObject({
      code: "BUILD_FAILED",
      message: expect.stringMatching(message),
    });
  });

  it("for a commit that is not there, and for a repository that is not there", async () => {
    const at = await commit({ "iterate.toml": "" });
    await expect(run({ ...at, commit: "a".repeat(40) }).result).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(run({ ...at, commit: "HEAD" }).result).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(run({ ...at, repo: { owner, path: "/repos/absent" } }).result).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  it("when its sources are over a limit, and not at it", async () => {
    const at = await commit({
      "iterate.toml": toml,
      "p.ts": "export class P { limit = 1 }",
      "x.txt": "x".repeat(100),
      "photo.png": "y".repeat(1000),
    });
    await expect(run(at, builder({ limits: { ...buildLimits, maxFiles: 3 } })).result).rejects.toThrow(
      /the commit has 4 files; at most 3/,
    );
    await expect(run(at, builder({ limits: { ...buildLimits, maxFileBytes: 99 } })).result).rejects.toThrow(
      /x\.txt: has 100 bytes; a source file may have 99/,
    );
    const bytes = toml.length + 28 + 100;
    await expect(run(at, builder({ limits: { ...buildLimits, maxSourceBytes: bytes - 1 } })).result).rejects.toThrow(
      /the source files of the commit have/,
    );
    await expect(
      run(at, builder({ limits: { ...buildLimits, maxFiles: 4, maxFileBytes: 100, maxSourceBytes: bytes } })).result,
    ).resolves.toMatchObject({ cached: false });
  });
});

describe("a stored bundle", () => {
  it("is given to its project alone", async () => {
    const { bundle: built } = await run(await commit({ "iterate.toml": toml, "p.ts": "export class P { mine = 1 }" })).result;
    await expect(store.read("prj_other", built.digest)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  it("whose bytes were damaged is never given out, and is made again by the next build", async () => {
    const at = await commit({ "iterate.toml": toml, "p.ts": "export class P { damaged = 1 }" });
    const { bundle: built } = await run(at).result;
    const modules = await modulesOf(built.digest);
    await host.db.query(
      "update blob_chunk set data = 'evil' where digest in (select blob from build_module where name = 'p.js' and key in (select key from build where digest = $1))",
      [built.digest],
    );
    await expect(modulesOf(built.digest)).rejects.toMatchObject({
      code: "NOT_FOUND",
      message: expect.stringMatching(/build its commit again/),
    });
    expect((await run(at).result).cached).toBe(false);
    expect(await modulesOf(built.digest)).toEqual(modules);
  });
});
