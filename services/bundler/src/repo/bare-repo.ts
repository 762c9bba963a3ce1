/**
 * A bare repository on disk: a cache of one repository's rows. Opening it compares what the disk is known to hold with Postgres and
 * mends the difference, so a lost volume, a crash between the transaction and git's own ref move, and another pod's pushes all end
 * the same way. Refs are moved by one holder of `line` at a time; reading needs no lock.
 */
import { createWriteStream } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Queryable } from "@iterate-platform/service/postgres";
import type { BlobStore } from "../blob/blob-store.js";
import type { Repo } from "./contract.js";
import type { Git, GitEnv } from "./git.js";
import { Mutex } from "./mutex.js";
import * as sql from "./repo.sql.js";

export interface BareRepoParts {
  readonly db: Queryable;
  readonly blobs: BlobStore;
  readonly git: Git;
}

/** Unpacking the largest pack allowed takes seconds; a minute means the disk is gone. */
const indexDeadlineMs = 60_000;

export class BareRepo {
  readonly repo: Repo;
  readonly dir: string;
  /** Held while refs move: from before the transaction that moves them in Postgres until git has moved them here. */
  readonly line = new Mutex();
  readonly #parts: BareRepoParts;
  /** What the disk holds; undefined when that must be found out. */
  #known: { refs: Map<string, string>; packs: Map<string, number> } | undefined;
  #isPrepared = false;

  constructor(repo: Repo, dir: string, parts: BareRepoParts) {
    this.repo = repo;
    this.dir = dir;
    this.#parts = parts;
  }

  /** Environment for commands on this repository. */
  get env(): GitEnv {
    return { GIT_DIR: this.dir };
  }

  /** Environment for commands whose new objects go to `objectDir` and whose old ones are this repository's. */
  quarantineEnv(objectDir: string): GitEnv {
    return { GIT_DIR: this.dir, GIT_OBJECT_DIRECTORY: objectDir, GIT_ALTERNATE_OBJECT_DIRECTORIES: join(this.dir, "objects") };
  }

  /** Packs the disk is known to hold. */
  get packCount(): number {
    return this.#known?.packs.size ?? 0;
  }

  /** Brings the disk to what Postgres says and answers the refs. Throws UNAVAILABLE when Postgres is away. */
  async sync(): Promise<ReadonlyMap<string, string>> {
    const wanted = await this.#wanted();
    if (this.#isCurrent(wanted)) return wanted.refs;
    return await this.line.run(() => this.syncHeld());
  }

  /** As `sync`, for the holder of `line`. */
  async syncHeld(): Promise<ReadonlyMap<string, string>> {
    const isFirst = !this.#isPrepared;
    const known = (this.#known ??= await this.#look());
    const wanted = await this.#wanted();
    // Only before anything reads them: later, a command may have one open that has just been folded into another.
    if (isFirst) await this.#dropPacks(known.packs, new Set(wanted.packs.map(({ name }) => name)));
    for (const pack of wanted.packs) {
      if (known.packs.get(pack.name) === pack.size) continue;
      await this.#fetchPack(pack);
      known.packs.set(pack.name, pack.size);
    }
    await this.#moveRefs(known.refs, wanted.refs);
    known.refs = wanted.refs;
    return wanted.refs;
  }

  /** Forgets what the disk is known to hold: the next `sync` looks again. */
  doubt(): void {
    this.#known = undefined;
  }

  /** A new folder beside the objects, for a pack that is not accepted yet. */
  async makeQuarantine(): Promise<string> {
    const folder = await mkdtemp(join(this.dir, "incoming-"));
    await mkdir(join(folder, "pack"));
    return folder;
  }

  /** Moves a pack and its index from `folder` into the repository; the index last, because git looks for it. */
  async adoptPack(folder: string, name: string): Promise<void> {
    const target = join(this.dir, "objects", "pack");
    for (const ending of [".pack", ".rev", ".idx"]) {
      await rename(join(folder, name + ending), join(target, name + ending)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "ENOENT" || ending !== ".rev") throw error;
      });
    }
  }

  async #wanted(): Promise<{ refs: Map<string, string>; packs: sql.PackRow[] }> {
    // Refs first: whatever they name is then in the packs.
    const refs = await sql.listRefs(this.#parts.db, this.repo.id);
    return { refs, packs: await sql.listPacks(this.#parts.db, this.repo.id) };
  }

  #isCurrent({ refs, packs }: { refs: Map<string, string>; packs: sql.PackRow[] }): boolean {
    const known = this.#known;
    if (known === undefined || known.refs.size !== refs.size) return false;
    return (
      packs.every((pack) => known.packs.get(pack.name) === pack.size) &&
      [...refs].every(([name, oid]) => known.refs.get(name) === oid)
    );
  }

  async #look(): Promise<{ refs: Map<string, string>; packs: Map<string, number> }> {
    const { git } = this.#parts;
    if (!this.#isPrepared) await this.#prepare();
    const folder = join(this.dir, "objects", "pack");
    const files = new Set(await readdir(folder));
    const packs = new Map<string, number>();
    for (const file of files) {
      const name = /^(pack-[0-9a-f]{40})\.pack$/.exec(file)?.[1];
      if (name !== undefined && files.has(`${name}.idx`)) packs.set(name, (await stat(join(folder, file))).size);
    }
    const listing = await git.text(["for-each-ref", "--format=%(objectname) %(refname)"], this.env);
    const refs = new Map(
      listing
        .split("\n")
        .filter(Boolean)
        .map((line) => [line.slice(41), line.slice(0, 40)]),
    );
    return { refs, packs };
  }

  /** Makes the repository if it is not there, and clears away what a former process left half done; before this one begins anything. */
  async #prepare(): Promise<void> {
    await mkdir(this.dir, { recursive: true });
    await this.#parts.git.run({ args: ["init", "--bare", "--quiet", "--template=", "--initial-branch=main", this.dir] });
    await mkdir(join(this.dir, "objects", "pack"), { recursive: true });
    for (const folder of [this.dir, join(this.dir, "objects"), join(this.dir, "objects", "pack")]) {
      for (const name of await readdir(folder)) {
        if (/^(incoming-|tmp_)|\.lock$/.test(name)) await rm(join(folder, name), { recursive: true, force: true });
      }
    }
    this.#isPrepared = true;
  }

  async #dropPacks(packs: Map<string, number>, wanted: ReadonlySet<string>): Promise<void> {
    for (const name of [...packs.keys()].filter((name) => !wanted.has(name))) {
      for (const ending of [".idx", ".rev", ".pack"]) await rm(join(this.dir, "objects", "pack", name + ending), { force: true });
      packs.delete(name);
    }
  }

  async #fetchPack(pack: sql.PackRow): Promise<void> {
    const folder = await this.makeQuarantine();
    try {
      const file = join(folder, `${pack.name}.pack`);
      await pipeline(Readable.from(this.#parts.blobs.read(pack.blob)), createWriteStream(file));
      await this.#parts.git.run({ args: ["index-pack", file], env: this.env, deadlineMs: indexDeadlineMs });
      await this.adoptPack(folder, pack.name);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** Removals go first: a name may be a folder of another. */
  async #moveRefs(from: ReadonlyMap<string, string>, to: ReadonlyMap<string, string>): Promise<void> {
    const removals = [...from.keys()].filter((name) => !to.has(name)).map((name) => `delete ${name}\n`);
    const moves = [...to].filter(([name, oid]) => from.get(name) !== oid).map(([name, oid]) => `update ${name} ${oid}\n`);
    for (const commands of [removals, moves]) {
      if (commands.length > 0)
        await this.#parts.git.run({ args: ["update-ref", "--stdin"], env: this.env, input: commands.join("") });
    }
  }
}
