/**
 * Folds the many small packs of a repository into one, so that opening and reading it costs what it holds and not how often it was
 * written. Postgres takes the new pack and drops the old ones in one transaction; whoever reads meanwhile keeps what it has.
 */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Pool } from "@iterate-platform/service/postgres";
import type { Log } from "@iterate-platform/service/log";
import type { BlobStore } from "../blob/blob-store.js";
import type { BareRepo } from "./bare-repo.js";
import type { Git } from "./git.js";
import { measurePack } from "./proposal.js";
import * as sql from "./repo.sql.js";

export interface CompactorParts {
  readonly db: Pool;
  readonly blobs: BlobStore;
  readonly git: Git;
  readonly log: Log;
  /** Packs a repository may have before they are folded. */
  readonly maxPacks: number;
}

/** Packing the largest repository allowed, with deltas reused, takes seconds. */
const packDeadlineMs = 120_000;

export class Compactor {
  readonly #parts: CompactorParts;
  readonly #running = new Map<string, Promise<void>>();

  constructor(parts: CompactorParts) {
    this.#parts = parts;
  }

  /** Folds the packs in the background when they have become too many. Failing harms nothing: the next write asks again. */
  consider(bare: BareRepo): void {
    const { id } = bare.repo;
    if (bare.packCount <= this.#parts.maxPacks || this.#running.has(id)) return;
    const run = this.compact(bare)
      .catch((error: unknown) =>
        this.#parts.log.warn("the packs of a repository could not be folded", {
          owner: bare.repo.owner,
          path: bare.repo.path,
          error,
        }),
      )
      .then(() => void this.#running.delete(id));
    this.#running.set(id, run);
  }

  /** Resolves when nothing is being folded. */
  async idle(): Promise<void> {
    await Promise.all(this.#running.values());
  }

  /** Folds all packs into one that holds what the refs reach. Answers false when a rival did so first. */
  async compact(bare: BareRepo): Promise<boolean> {
    const { db, blobs, git } = this.#parts;
    const { id } = bare.repo;
    // The packs are listed before the refs are read: what is pushed meanwhile is in a pack that is not listed, and stays.
    const old = (await sql.listPacks(db, id)).map(({ name }) => name);
    await bare.sync();
    const folder = await bare.makeQuarantine();
    try {
      const { output } = await git.run({
        args: ["pack-objects", "--revs", "--all", "--quiet", join(folder, "pack")],
        env: bare.env,
        input: "",
        deadlineMs: packDeadlineMs,
      });
      const name = `pack-${output.toString("utf8").trim()}`;
      const file = join(folder, `${name}.pack`);
      const { size, objects } = await measurePack(file);
      const blob = await blobs.putFile(file);
      const isFirst = await db.transaction(async (transaction) => {
        await sql.lockRepo(transaction, id);
        const present = new Set((await sql.listPacks(transaction, id)).map((pack) => pack.name));
        if (!old.every((pack) => present.has(pack))) return false;
        await sql.addPack(transaction, id, { name, blob, size, objects });
        await sql.removePacks(
          transaction,
          id,
          old.filter((pack) => pack !== name),
        );
        return true;
      });
      if (isFirst) await bare.adoptPack(folder, name);
      bare.doubt();
      return isFirst;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}
