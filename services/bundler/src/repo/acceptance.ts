/**
 * How refs move, for pushes and commits alike. While new objects are in quarantine they are inspected, their pack is stored as a blob,
 * and then one transaction compares and sets every ref, adds the pack and journals the updates with their facts. Only after that does
 * git move the refs on disk; a crash in between is mended when the repository is opened.
 */
import { setTimeout as pause } from "node:timers/promises";
import { failpoint } from "@iterate-platform/service/failpoints";
import type { Pool, Queryable } from "@iterate-platform/service/postgres";
import { codedError, errorCode } from "iterate/lib";
import { join } from "node:path";
import type { BlobStore } from "../blob/blob-store.js";
import type { BareRepo } from "./bare-repo.js";
import { branchPrefix, type RefUpdate, type RepoLimits } from "./contract.js";
import { Inspector, notFastForward, type InspectedUpdate, type ProposedPack } from "./proposal.js";
import type { Git } from "./git.js";
import { addRefUpdate, hasPush } from "./ref-update.sql.js";
import * as sql from "./repo.sql.js";

export interface Proposal {
  readonly bare: BareRepo;
  /** Object folder of the quarantine; its pack is in `pack/`. */
  readonly objectDir: string;
  readonly updates: readonly RefUpdate[];
  /** UUID; finds the outcome when the answer of the transaction was lost. */
  readonly pushId: string;
  readonly pusher: string | undefined;
  readonly traceparent: string | undefined;
}

export interface AcceptanceParts {
  readonly db: Pick<Pool, "query" | "transaction">;
  readonly blobs: BlobStore;
  readonly git: Git;
  readonly limits: RepoLimits;
  /** Called when updates of a repository were journalled. */
  readonly onAccepted: (bare: BareRepo) => void;
}

/** Looks for the outcome of a transaction whose answer was lost, ms between them; then the caller learns UNAVAILABLE. */
const outcomeLadderMs = [100, 400, 1500];

export class Acceptance {
  readonly #parts: AcceptanceParts;
  readonly #inspector: Inspector;

  constructor(parts: AcceptanceParts) {
    this.#parts = parts;
    this.#inspector = new Inspector(parts.git, parts.limits);
  }

  /**
   * Accepts all updates or none. Resolves once they are durable, to the function that must be called when git has moved the refs on
   * disk, or failed to: until then nobody else moves refs of this repository here. Throws NOT_FAST_FORWARD, INVALID_INPUT,
   * BATCH_TOO_LARGE; after UNAVAILABLE the updates may have been accepted.
   */
  async accept(proposal: Proposal): Promise<() => void> {
    const { bare, objectDir, updates } = proposal;
    const { blobs } = this.#parts;
    this.#inspector.checkNames(updates);
    compare(updates, await sql.listRefs(this.#parts.db, bare.repo.id));
    const env = bare.quarantineEnv(objectDir);
    const tips = updates.flatMap((update) => (update.new === null ? [] : [update.new]));
    const pack = await this.#inspector.pack(join(objectDir, "pack"), tips, env);
    const inspected: InspectedUpdate[] = [];
    for (const update of updates) inspected.push(await this.#inspector.inspect(update, bare, env, proposal.pusher));
    const blob = pack === undefined ? undefined : await blobs.putFile(join(pack.folder, `${pack.name}.pack`));

    const unlock = await bare.line.lock();
    try {
      await this.#commitSurely(proposal, inspected, pack === undefined ? undefined : { ...pack, blob: blob! });
      this.#parts.onAccepted(bare);
      await failpoint("repo.accepted");
    } catch (error) {
      unlock();
      throw error;
    }
    return () => {
      bare.doubt();
      unlock();
    };
  }

  async #commitSurely(proposal: Proposal, updates: readonly InspectedUpdate[], pack: StoredPack | undefined): Promise<void> {
    try {
      await this.#parts.db.transaction((db) => this.#commit(db, proposal, updates, pack));
    } catch (error) {
      if (errorCode(error) !== "UNAVAILABLE" || !(await this.#wasCommitted(proposal))) throw error;
    }
  }

  async #commit(
    db: Queryable,
    { bare, pushId, pusher, traceparent }: Proposal,
    updates: readonly InspectedUpdate[],
    pack: StoredPack | undefined,
  ): Promise<void> {
    const { limits } = this.#parts;
    const { id } = bare.repo;
    const { nextSeq, packBytes } = await sql.lockRepo(db, id);
    const refs = await sql.listRefs(db, id);
    compare(updates, refs);
    for (const update of updates) {
      if (update.new === null) refs.delete(update.name);
      else refs.set(update.name, update.new);
    }
    checkRefs(refs, limits);
    if (pack !== undefined && packBytes + pack.size > limits.maxRepoBytes) {
      throw codedError(
        "BATCH_TOO_LARGE",
        `the repository would have ${packBytes + pack.size} bytes; its quota is ${limits.maxRepoBytes}`,
      );
    }

    const isNew = pack !== undefined && (await sql.addPack(db, id, pack));
    let seq = nextSeq;
    for (const update of updates) {
      if (update.new === null) await sql.removeRef(db, id, update.name);
      else await sql.setRef(db, id, update.name, update.new);
      await addRefUpdate(db, id, { ...update, seq: seq++, pushId, pusher, traceparent });
    }
    await sql.advanceRepo(db, id, seq, isNew ? pack.size : 0);
  }

  async #wasCommitted({ bare, pushId }: Proposal): Promise<boolean> {
    for (const delayMs of outcomeLadderMs) {
      await pause(delayMs);
      try {
        return await hasPush(this.#parts.db, bare.repo.id, pushId);
      } catch (error) {
        if (errorCode(error) !== "UNAVAILABLE") throw error;
      }
    }
    return false;
  }
}

type StoredPack = ProposedPack & { readonly blob: string };

/** Each ref must be where its update says it is. */
function compare(updates: readonly RefUpdate[], refs: ReadonlyMap<string, string>): void {
  for (const update of updates) {
    const current = refs.get(update.name) ?? null;
    if (current !== update.old) throw notFastForward(update.name.slice(branchPrefix.length), update.new ?? "the removal", current);
  }
}

/** git keeps a ref as a path: none may be a folder of another. */
function checkRefs(refs: ReadonlyMap<string, string>, limits: RepoLimits): void {
  if (refs.size > limits.maxRefs)
    throw codedError("BATCH_TOO_LARGE", `the repository would have ${refs.size} branches; it may have ${limits.maxRefs}`);
  for (const name of refs.keys()) {
    for (let at = name.indexOf("/", branchPrefix.length); at >= 0; at = name.indexOf("/", at + 1)) {
      const folder = name.slice(0, at);
      if (refs.has(folder)) throw codedError("INVALID_INPUT", `${name} and ${folder} cannot both exist; choose another name`);
    }
  }
}
