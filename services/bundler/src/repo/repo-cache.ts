/** The bare repositories of this pod's disk, opened one at a time and always current with Postgres when they are handed out. */
import { hash } from "node:crypto";
import { join } from "node:path";
import { BareRepo, type BareRepoParts } from "./bare-repo.js";
import { assertRepoName, type Repo, type RepoName } from "./contract.js";
import * as sql from "./repo.sql.js";

export class RepoCache {
  readonly #root: string;
  readonly #parts: BareRepoParts;
  readonly #open = new Map<string, BareRepo>();

  /** `root` is a folder of this process alone. */
  constructor(root: string, parts: BareRepoParts) {
    this.#root = root;
    this.#parts = parts;
  }

  /** The repository, current with Postgres; undefined when it does not exist. Throws INVALID_CONTEXT for a name it cannot have. */
  async find(name: RepoName): Promise<BareRepo | undefined> {
    assertRepoName(name);
    const repo = await sql.findRepo(this.#parts.db, name);
    return repo === undefined ? undefined : await this.#current(repo);
  }

  /** As `find`, but the repository exists afterwards. */
  async make(name: RepoName): Promise<BareRepo> {
    assertRepoName(name);
    let repo = await sql.findRepo(this.#parts.db, name);
    if (repo === undefined) {
      await sql.makeRepo(this.#parts.db, name);
      repo = (await sql.findRepo(this.#parts.db, name))!;
    }
    return await this.#current(repo);
  }

  async #current(repo: Repo): Promise<BareRepo> {
    let bare = this.#open.get(repo.id);
    if (bare === undefined) {
      bare = new BareRepo(repo, join(this.#root, `${hash("sha256", `${repo.owner}\0${repo.path}`).slice(0, 40)}.git`), this.#parts);
      this.#open.set(repo.id, bare);
    }
    await bare.sync();
    return bare;
  }
}
