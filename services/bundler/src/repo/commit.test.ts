import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { failpoints } from "@iterate-platform/service/failpoints";
import type { Queryable } from "@iterate-platform/service/postgres";
import { useTestDatabase } from "@iterate-platform/testing";
import { codedError } from "iterate/lib";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { gitClient, owner, startRepoHost, type RepoHost } from "../api/repo-host.fixture.js";
import { Acceptance } from "./acceptance.js";
import type { BareRepo } from "./bare-repo.js";
import { repoLimits } from "./contract.js";
import { Committer, maxChanges, maxMessageBytes, type CommitInput } from "./commit.js";

const database = useTestDatabase();
let host: RepoHost;
let folder: string;
beforeAll(async () => {
  host = await startRepoHost(database.url);
  folder = mkdtempSync(join(tmpdir(), "commit-test-"));
});
afterAll(async () => {
  await host.stop();
  rmSync(folder, { recursive: true, force: true });
});
afterEach(() => failpoints.set(""));

let count = 0;
const freshRepo = (): Promise<BareRepo> => host.repos.make({ owner, path: `/repos/r${(count += 1)}` });

type Changes = Readonly<Record<string, string | undefined>>;

const input = (changes: Changes, more: Partial<CommitInput> = {}): CommitInput => ({
  message: "Change things",
  changes: Object.entries(changes).map(([path, content]) => ({
    path,
    content: content === undefined ? undefined : Buffer.from(content),
  })),
  author: { name: "Ada", email: "ada@example.com" },
  parent: undefined,
  pushId: crypto.randomUUID(),
  pusher: "ada",
  traceparent: undefined,
  ...more,
});

const commit = (bare: BareRepo, changes: Changes, more: Partial<CommitInput> = {}) =>
  host.committer.commit(bare, input(changes, more));

describe("a commit", () => {
  it("adds, changes and removes files, and an ordinary client clones it", async () => {
    const bare = await freshRepo();
    const first = await commit(bare, { "a.ts": "a", "lib/b.ts": "b", "ünïcode name.txt": "c" });
    const second = await commit(bare, { "a.ts": "aa", "lib/b.ts": undefined, "lib/deep/c.ts": "" }, { message: "Second\n\nbody" });
    expect(await host.reader.paths(bare, second)).toEqual(["a.ts", "lib/deep/c.ts", "ünïcode name.txt"]);
    expect((await host.reader.file(bare, first, "lib/b.ts")).toString()).toBe("b");
    expect(await host.reader.log(bare, second, 50)).toEqual([
      {
        oid: second,
        parents: [first],
        timeS: Date.parse("2030-01-02T03:04:05Z") / 1000,
        author: { name: "Ada", email: "ada@example.com" },
        message: "Second\n\nbody",
      },
      {
        oid: first,
        parents: [],
        timeS: Date.parse("2030-01-02T03:04:05Z") / 1000,
        author: { name: "Ada", email: "ada@example.com" },
        message: "Change things",
      },
    ]);
    await gitClient(folder, "clone", "--quiet", host.url(bare.repo.path), `clone-${count}`);
    expect(readFileSync(join(folder, `clone-${count}`, "a.ts"), "utf8")).toBe("aa");
    await gitClient(join(folder, `clone-${count}`), "fsck", "--strict");
  });

  it("has the same id for the same content, author, time and parent", async () => {
    const [one, two] = [await freshRepo(), await freshRepo()];
    expect(await commit(one, { "a.ts": "a" })).toBe(await commit(two, { "a.ts": "a" }));
  });

  it("that changes nothing answers the tip and tells nothing", async () => {
    const bare = await freshRepo();
    const oid = await commit(bare, { "a.ts": "a" });
    expect(await commit(bare, { "a.ts": "a", "absent.ts": undefined })).toBe(oid);
    expect((await host.db.query("select 1 from ref_update where repo_id = $1", [bare.repo.id])).rows).toHaveLength(1);
  });

  it("on another parent than the tip is refused with both commits", async () => {
    const bare = await freshRepo();
    const first = await commit(bare, { "a.ts": "a" }, { parent: null });
    const second = await commit(bare, { "a.ts": "b" }, { parent: first });
    await expect(commit(bare, { "a.ts": "c" }, { parent: first })).rejects.toMatchObject({
      code: "NOT_FAST_FORWARD",
      data: { ours: first, theirs: second },
    });
    await expect(commit(bare, { "a.ts": "c" }, { parent: null })).rejects.toMatchObject({ code: "NOT_FAST_FORWARD" });
  });

  it("made at the same time as others lands on top of them, on two pods", async () => {
    const bare = await freshRepo();
    const other = await startRepoHost(database.url);
    const bareThere = await other.repos.make(bare.repo);
    const oids = await Promise.all(
      Array.from({ length: 6 }, (_, at) =>
        at % 2 === 0 ? commit(bare, { [`f${at}.ts`]: "x" }) : other.committer.commit(bareThere, input({ [`f${at}.ts`]: "x" })),
      ),
    );
    expect(new Set(oids).size).toBe(6);
    const tip = (await bare.sync()).get("refs/heads/main")!;
    expect(await host.reader.paths(bare, tip)).toHaveLength(6);
    expect(await host.reader.log(bare, tip, 50)).toHaveLength(6);
    await other.stop();
  });

  it("whose process dies after the transaction is there at the next opening", async () => {
    const bare = await freshRepo();
    failpoints.set("repo.commit-accepted=error*1");
    await expect(commit(bare, { "a.ts": "a" })).rejects.toMatchObject({ code: "UNAVAILABLE" });
    const tip = (await bare.sync()).get("refs/heads/main")!;
    expect((await host.reader.file(bare, tip, "a.ts")).toString()).toBe("a");
    expect(await commit(bare, { "a.ts": "a" })).toBe(tip);
  });

  it("whose transaction's answer was lost is found by its id and answered", async () => {
    const bare = await freshRepo();
    let lost = 0;
    const db = {
      query: host.db.query.bind(host.db),
      transaction: async <T>(work: (transaction: Queryable) => Promise<T>): Promise<T> => {
        await host.db.transaction(work);
        lost += 1;
        throw codedError("UNAVAILABLE", "the connection was lost before the answer");
      },
    };
    const acceptance = new Acceptance({ db, blobs: host.blobs, git: host.git, limits: repoLimits, onAccepted: () => undefined });
    const committer = new Committer({ git: host.git, acceptance, nowMs: () => 0 });
    const oid = await committer.commit(bare, input({ "a.ts": "a" }));
    expect(lost).toBe(1);
    expect((await bare.sync()).get("refs/heads/main")).toBe(oid);
    expect((await host.db.query("select 1 from ref_update where repo_id = $1", [bare.repo.id])).rows).toHaveLength(1);
  });

  it.each<[string, Changes, Partial<CommitInput>, RegExp]>([
    ["no change", {}, {}, /the commit has 0 changes; 1 to 1000/],
    ["no message", { "a.ts": "" }, { message: " \n" }, /needs a message/],
    ["an absolute path", { "/a.ts": "" }, {}, /holds the segment ""/],
    ["a path with dots", { "a/../b.ts": "" }, {}, /holds the segment "\.\."/],
    ["git's own folder", { ".git/config": "" }, {}, /leads into git's own folder/],
    ["git's own folder in disguise", { "x/.GIT/hooks/pre-commit": "" }, {}, /leads into git's own folder/],
    ["git's folder as another system spells it", { "git~1/config": "" }, {}, /git refuses a path of the commit: .*git~1/],
    [
      "an author with a line break",
      { "a.ts": "" },
      { author: { name: "A\nB", email: "a@b" } },
      /the author's name "A\\nB" is empty, too long or holds/,
    ],
  ])("with %s is refused", async (_, changes, more, message) => {
    const bare = await freshRepo();
    await expect(commit(bare, changes, more)).rejects.toMatchObject({ message: expect.stringMatching(message) });
    expect((await bare.sync()).size).toBe(0);
  });

  it("takes exactly as many changes and as long a message as it says", async () => {
    const bare = await freshRepo();
    const many = (size: number) => Object.fromEntries(Array.from({ length: size }, (_, at) => [`d/f${at}`, String(at)]));
    await commit(bare, many(maxChanges), { message: "x".repeat(maxMessageBytes) });
    await expect(commit(bare, many(maxChanges + 1))).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(commit(bare, { a: "" }, { message: "x".repeat(maxMessageBytes + 1) })).rejects.toMatchObject({
      code: "INVALID_INPUT",
    });
  });
});

describe("the packs of a repository", () => {
  it("are folded into one when they are too many, and nothing is lost", async () => {
    const small = await startRepoHost(database.url, { maxPacks: 5 });
    const bare = await small.repos.make({ owner, path: "/repos/folded" });
    const packs = async () => (await small.db.query("select 1 from pack where repo_id = $1", [bare.repo.id])).rows.length;
    for (let at = 0; at < 8; at += 1) await small.committer.commit(bare, input({ [`f${at}.ts`]: String(at) }));
    await small.compactor.idle();
    expect(await packs()).toBeLessThanOrEqual(3);
    const tip = await small.committer.commit(bare, input({ "last.ts": "last" }));

    const other = await startRepoHost(database.url);
    const there = (await other.repos.find(bare.repo))!;
    expect(await other.reader.paths(there, tip)).toHaveLength(9);
    expect(await other.reader.log(there, tip, 50)).toHaveLength(9);
    await gitClient(folder, "clone", "--quiet", other.url("/repos/folded"), "folded");
    await gitClient(join(folder, "folded"), "fsck", "--strict");
    const { rows } = await small.db.query<{ matches: boolean }>(
      "select pack_bytes = (select sum(size) from pack where pack.repo_id = repo.repo_id) as matches from repo where repo_id = $1",
      [bare.repo.id],
    );
    expect(rows).toEqual([{ matches: true }]);
    await small.stop();
    await other.stop();
  });

  it("folded by two at once are folded by one", async () => {
    const bare = await freshRepo();
    const other = await startRepoHost(database.url);
    for (let at = 0; at < 4; at += 1) await commit(bare, { [`f${at}.ts`]: String(at) });
    const there = (await other.repos.find(bare.repo))!;
    const results = await Promise.all([
      host.compactor.compact(bare),
      other.compactor.compact(there),
      commit(bare, { "meanwhile.ts": "x" }),
    ]);
    expect(results.slice(0, 2).filter(Boolean).length).toBeGreaterThanOrEqual(1);
    const third = await startRepoHost(database.url);
    const fresh = (await third.repos.find(bare.repo))!;
    expect(await third.reader.paths(fresh, results[2])).toHaveLength(5);
    await other.stop();
    await third.stop();
  });
});

describe("reading", () => {
  it("answers NOT_FOUND for commits and files that are not there, and takes no revision expression", async () => {
    const bare = await freshRepo();
    const oid = await commit(bare, { "a.ts": "a", "dir/b.ts": "b" });
    await expect(host.reader.file(bare, oid, "b.ts")).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(host.reader.file(bare, oid, "dir")).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(host.reader.file(bare, oid, "*.ts")).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(host.reader.file(bare, oid, "../a.ts")).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(host.reader.paths(bare, "a".repeat(40))).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(host.reader.paths(bare, "HEAD^{tree}")).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(host.reader.paths(bare, "--all")).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });

  it("answers a tree with sizes and its contents in order", async () => {
    const bare = await freshRepo();
    const oid = await commit(bare, { "a.ts": "a\n", "b/c.json": "", d: "x".repeat(70_000) });
    const tree = await host.reader.tree(bare, oid);
    expect(tree.map(({ path, size, mode }) => [path, size, mode])).toEqual([
      ["a.ts", 2, "100644"],
      ["b/c.json", 0, "100644"],
      ["d", 70_000, "100644"],
    ]);
    expect((await host.reader.contents(bare, tree)).map((content) => content.length)).toEqual([2, 0, 70_000]);
  });
});
