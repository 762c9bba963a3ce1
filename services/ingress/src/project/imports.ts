/**
 * Makes projects from archives. The row of the project is the durable owner of what is under way:
 *
 * staging (the archive is written where nobody sees it) → opening (it is complete: the contexts take their name, and one fact says so)
 * → cleaning (the project is visible; what it replaced is removed) → over. Any failure while staging: → removing → over, as if nothing
 * had been. From `opening` on there is no way back: whoever finds it silent finishes it.
 */
import { maxHeaderBytes, readArchiveHeader } from "@iterate-platform/service/archive-header";
import type { Queryable } from "@iterate-platform/service/postgres";
import { codedError } from "iterate/lib";
import { project as projectEvents } from "iterate/events";
import type { AnnouncePorts } from "./announce.js";
import type { Project } from "./contract.js";
import {
  beginReplacing,
  claimSilent,
  endImport,
  insertImported,
  keepAlive,
  standingOf,
  takeStep,
  type ImportStep,
  type ProjectImport,
} from "./import.sql.js";
import { assertProjectSlug } from "./slug.js";

/** Between two signs of life. */
const aliveEveryMs = 5_000;
/** An import that gave none for so long is taken over. */
export const silentMs = 60_000;
const maxImportsPerRound = 5;

export interface StagedCounts {
  readonly contexts: number;
  readonly events: number;
}

/** What the context service does with the logs. Each call may be repeated, but `stage`. */
export interface ImportPorts {
  /** Writes the archive where nobody sees it. */
  stage(
    request: { readonly importId: string; readonly owner: string; readonly replace: boolean },
    data: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<StagedCounts>;
  open(importId: string, owner: string): Promise<void>;
  remove(importId: string): Promise<void>;
  readonly append: AnnouncePorts["append"];
}

export interface ImportsOptions {
  readonly pool: Queryable;
  readonly ports: ImportPorts;
  /** 32 hexadecimal digits. */
  readonly newImportId: () => string;
  /** Runs `work` every so often until the answered function is called. */
  readonly every: (ms: number, work: () => void) => () => void;
  /** Told of what is left to the sweep. */
  readonly onLeft: (one: ProjectImport, error: unknown) => void;
}

export interface ImportRequest {
  /** Empty takes the one in the archive. */
  readonly slug: string;
  readonly replace: boolean;
  readonly principal: string;
}

export class ProjectImports {
  readonly #options: ImportsOptions;

  constructor(options: ImportsOptions) {
    this.#options = options;
  }

  /**
   * Makes the project of an archive, or nothing.
   *
   * @throws CodedError INVALID_INPUT, UPGRADE_REQUIRED: the archive is not one that can be taken; ALREADY_EXISTS; PROJECT_NAME_TAKEN;
   *   CANCELLED; UNAVAILABLE: import again.
   */
  async import(
    request: ImportRequest,
    data: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<StagedCounts & { readonly project: Project }> {
    const archive = await Peeked.of(data);
    const { owner, slug } = readArchiveHeader(archive.firstLine);
    const one = await this.#begin({ ...request, slug: request.slug === "" ? slug : request.slug }, owner);
    const staged = await this.#stage(one, request.replace, archive.whole(), signal);
    await this.#finish({ ...one, step: "opening" }).catch((error: unknown) => {
      this.#options.onLeft(one, error);
      throw error;
    });
    return { ...staged, project: one.project };
  }

  /** Finishes or removes what has been silent; answers how many were tried. */
  async sweep(): Promise<number> {
    const silent = await claimSilent(this.#options.pool, maxImportsPerRound, silentMs);
    for (const one of silent) {
      try {
        await (one.step === "removing" ? this.#remove(one) : this.#finish(one));
      } catch (error) {
        this.#options.onLeft(one, error);
      }
    }
    return silent.length;
  }

  async #begin({ slug, replace, principal }: ImportRequest, owner: string): Promise<ProjectImport> {
    const { pool, newImportId } = this.#options;
    assertProjectSlug(slug);
    const importId = newImportId();
    const made = await insertImported(pool, { id: owner, slug, principal }, importId);
    if (made !== null) return made;
    const standing = await standingOf(pool, owner);
    if (standing === null)
      throw codedError("PROJECT_NAME_TAKEN", `the slug ${JSON.stringify(slug)} is taken; choose another`, { slug });
    if (standing === "open" && !replace)
      throw codedError("ALREADY_EXISTS", `the project ${owner} of the archive exists; say that it is to be replaced`, { owner });
    const replacing = standing === "open" ? await beginReplacing(pool, owner, importId) : null;
    if (replacing === null) throw codedError("ALREADY_EXISTS", `an import of ${owner} is under way already`, { owner });
    return replacing;
  }

  /** Until the archive is complete and the row says so; else nothing is left. */
  async #stage(one: ProjectImport, replace: boolean, data: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<StagedCounts> {
    const { pool, ports } = this.#options;
    const over = new AbortController();
    const stop = this.#keepAlive(one.importId, "staging", () =>
      over.abort(codedError("CANCELLED", "the import was silent for too long and was given up")),
    );
    try {
      const { importId, project } = one;
      const both = AbortSignal.any([signal, over.signal]);
      const staged = await ports.stage({ importId, owner: project.id, replace }, data, both);
      if (!(await takeStep(pool, importId, "staging", "opening")))
        throw codedError("CANCELLED", "the import was silent for too long and was given up");
      return staged;
    } catch (error) {
      await this.#giveUp(one);
      throw over.signal.aborted ? over.signal.reason : error;
    } finally {
      stop();
    }
  }

  /** A failure to clean up never hides the failure before it: the sweep goes on with it. */
  async #giveUp(one: ProjectImport): Promise<void> {
    try {
      if (await takeStep(this.#options.pool, one.importId, "staging", "removing")) await this.#remove({ ...one, step: "removing" });
    } catch (error) {
      this.#options.onLeft(one, error);
    }
  }

  async #remove({ importId, step }: ProjectImport): Promise<void> {
    const { pool, ports } = this.#options;
    await this.#whileAlive(importId, step, () => ports.remove(importId));
    await endImport(pool, importId);
  }

  async #finish(one: ProjectImport): Promise<void> {
    const { pool, ports } = this.#options;
    const { importId, project, step } = one;
    if (step === "opening") {
      await this.#whileAlive(importId, step, async () => {
        await ports.open(importId, project.id);
        await ports.append(project.id, "/", [
          {
            type: projectEvents.projectImported.type,
            payload: { slug: project.slug, importId },
            idempotencyKey: `project/imported:${importId}`,
          },
        ]);
      });
      await takeStep(pool, importId, "opening", "cleaning");
    }
    await this.#remove({ ...one, step: "cleaning" });
  }

  /** Nobody else takes over a step that only takes long. */
  async #whileAlive(importId: string, step: ImportStep, work: () => Promise<void>): Promise<void> {
    const stop = this.#keepAlive(importId, step);
    try {
      await work();
    } finally {
      stop();
    }
  }

  /** Gives signs of life until the answered function is called. */
  #keepAlive(importId: string, step: ImportStep, onTakenOver: () => void = () => undefined): () => void {
    const { pool, every } = this.#options;
    return every(aliveEveryMs, () => {
      keepAlive(pool, importId, step).then(
        (isOurs) => {
          if (!isOurs) onTakenOver();
        },
        // The database is away: the next sign of life, or the step after this, shows how it stands.
        () => undefined,
      );
    });
  }
}

/** A stream of which the first line was looked at. */
class Peeked {
  readonly firstLine: string;
  readonly #head: Buffer;
  readonly #rest: AsyncIterator<Uint8Array>;

  private constructor(firstLine: string, head: Buffer, rest: AsyncIterator<Uint8Array>) {
    this.firstLine = firstLine;
    this.#head = head;
    this.#rest = rest;
  }

  /** @throws CodedError INVALID_INPUT when the first line is too long for one of an archive. */
  static async of(data: AsyncIterable<Uint8Array>): Promise<Peeked> {
    const rest = data[Symbol.asyncIterator]();
    let head = Buffer.alloc(0);
    for (;;) {
      const end = head.indexOf(10);
      if (end >= 0) return new Peeked(head.toString("utf8", 0, end), head, rest);
      if (head.length > maxHeaderBytes)
        throw codedError("INVALID_INPUT", "this is no archive of Iterate: its first line is too long");
      const next = await rest.next();
      if (next.done === true) return new Peeked(head.toString("utf8"), head, rest);
      head = Buffer.concat([head, next.value]);
    }
  }

  async *whole(): AsyncGenerator<Uint8Array> {
    yield this.#head;
    for (let next = await this.#rest.next(); next.done !== true; next = await this.#rest.next()) yield next.value;
  }
}
