/** The durable cache of builds: rows by key, modules as content-addressed blobs that are verified on every read. */
import type { Queryable } from "@iterate-platform/service/postgres";
import { codedError, errorCode } from "iterate/lib";
import type { BlobStore } from "../blob/blob-store.js";
import * as sql from "./build.sql.js";
import type { BuildLimits, BuiltModule } from "./contract.js";
import type { ProcessorDeclaration } from "./manifest.js";

/** One separately identified top-level module. */
export interface BundleEntry {
  readonly file: string;
  readonly module: string;
  readonly identity: string;
  readonly classes: readonly string[];
}

/** What a build is, but for the commit it was asked for: several commits may have the same. */
export interface Bundle {
  readonly digest: string;
  /** Built module whose default export is the config entry point; null when there is none. */
  readonly mainModule: string | null;
  readonly entries: readonly BundleEntry[];
  readonly processors: readonly ProcessorDeclaration[];
}

export class BuildStore {
  readonly #db: Queryable;
  readonly #blobs: BlobStore;
  readonly #limits: BuildLimits;

  constructor(db: Queryable, blobs: BlobStore, limits: BuildLimits) {
    this.#db = db;
    this.#blobs = blobs;
    this.#limits = limits;
  }

  async find(owner: string, key: string): Promise<Bundle | undefined> {
    const row = await sql.findBuild(this.#db, owner, key);
    return row === undefined ? undefined : (JSON.parse(row.bundle) as Bundle);
  }

  /** Safe to repeat. */
  async keep(owner: string, key: string, bundle: Bundle, modules: readonly BuiltModule[]): Promise<void> {
    const rows: sql.ModuleRow[] = [];
    for (const { name, kind, data } of modules) rows.push({ name, kind, blob: await this.#blobs.put(data) });
    await sql.addBuild(this.#db, owner, { key, digest: bundle.digest, bundle: JSON.stringify(bundle) }, rows);
  }

  /**
   * A bundle of `owner` and its modules, each whole and verified. Throws NOT_FOUND when the project has no such build, and when stored
   * bytes turned out to be damaged: the build is then forgotten, and building its commit again makes it anew.
   */
  async read(owner: string, digest: string): Promise<{ bundle: Bundle; modules: AsyncGenerator<BuiltModule, void> }> {
    const row = await sql.findBuildByDigest(this.#db, owner, digest);
    if (row === undefined) throw codedError("NOT_FOUND", `the project has no build ${digest}; build its commit again`, { digest });
    return { bundle: JSON.parse(row.bundle) as Bundle, modules: this.#modules(owner, row) };
  }

  async *#modules(owner: string, { key, digest }: sql.BuildRow): AsyncGenerator<BuiltModule, void> {
    for (const { name, kind, blob } of await sql.listModules(this.#db, owner, key)) {
      const data = await this.#blobs.readAll(blob, this.#limits.maxModuleBytes).catch(async (error: unknown) => {
        if (errorCode(error) !== "INTERNAL" && errorCode(error) !== "NOT_FOUND") throw error;
        await sql.removeBuilds(this.#db, owner, digest);
        throw codedError("NOT_FOUND", `the stored module ${name} of build ${digest} was damaged; build its commit again`, {
          digest,
        });
      });
      yield { name, kind, data };
    }
  }
}
