/** `iterate export` and `iterate import`: a project's logs as one file, and back. */
import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { resolve } from "node:path";
import type { Writable } from "node:stream";
import { finished, pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import type { Command } from "commander";
import type { ArchiveCounts } from "../api/archive.js";
import { codedError } from "../lib/coded-error.js";
import { connect, withCommonFlags, type CommonFlags } from "./command.js";
import { UsageError } from "./failure.js";
import { jsonLine, printable } from "./output.js";
import type { Surroundings } from "./surroundings.js";

interface ExportFlags extends CommonFlags {
  readonly context?: string;
  readonly out?: string;
}

interface ImportFlags extends CommonFlags {
  readonly slug?: string;
  readonly replace?: true;
}

/** Bytes sent at once. */
const pieceBytes = 262_144;
/** Between two lines of progress. */
const progressEveryMs = 1_000;

export function addArchiveCommands(program: Command, surroundings: Surroundings): void {
  const { print, cwd } = surroundings;

  withCommonFlags(program.command("export"))
    .description("write everything a project's logs hold, as JSON lines with checksums")
    .argument("<project>", "slug or id of the project")
    .option("--context <path>", "only the context at this path")
    .option("--out <file>", "the file to write, compressed when its name ends in .gz; without it, standard output")
    .action(async (project: string, flags: ExportFlags) => {
      const progress = new Progress(surroundings, flags);
      using connection = await connect(flags, surroundings);
      const target = flags.out === undefined ? new PrintedArchive(print) : await WrittenArchive.open(resolve(cwd, flags.out));
      try {
        const counts = await connection.session.projects.get(project).export({
          ...(flags.context === undefined ? {} : { path: flags.context }),
          onPiece: async ({ data, contexts, events }) => {
            await target.write(data);
            progress.tell("exported", { contexts, events });
          },
        });
        await target.close();
        progress.end("exported", counts);
        if (flags.out !== undefined) await print(flags.json ? jsonLine({ file: flags.out, ...counts }) : "");
      } catch (error) {
        await target.abandon();
        throw error;
      }
    });

  withCommonFlags(program.command("import"))
    .description("make the project of an archive; it is there when all of it is, and not at all after a failure")
    .argument("<file>", "what `iterate export` wrote")
    .option("--slug <slug>", "call the project this; without it, what it was called")
    .option("--replace", "replace the project if it exists")
    .action(async (file: string, flags: ImportFlags) => {
      const path = resolve(cwd, file);
      const isCompressed = await isGzip(path);
      const progress = new Progress(surroundings, flags);
      using connection = await connect(flags, surroundings);
      using importing = await connection.session.projects.import({
        ...(flags.slug === undefined ? {} : { slug: flags.slug }),
        ...(flags.replace === undefined ? {} : { replace: true }),
      });
      let bytes = 0;
      for await (const piece of piecesOf(path, isCompressed)) {
        await importing.write(piece);
        bytes += piece.length;
        progress.tellBytes(bytes);
      }
      const imported = await importing.finish();
      progress.end("imported", imported);
      const { project } = imported;
      await print(flags.json ? jsonLine(imported) : `${printable(`imported ${project.slug} (${project.id})`)}\n`);
    });
}

/** Where an archive goes. */
interface ArchiveTarget {
  write(data: Uint8Array): Promise<void>;
  /** All of it is there. */
  close(): Promise<void>;
  /** It will never be complete. */
  abandon(): Promise<void>;
}

class PrintedArchive implements ArchiveTarget {
  readonly #print: Surroundings["print"];
  readonly #decoder = new TextDecoder();

  constructor(print: Surroundings["print"]) {
    this.#print = print;
  }

  write(data: Uint8Array): Promise<void> {
    return this.#print(this.#decoder.decode(data, { stream: true }));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  abandon(): Promise<void> {
    return Promise.resolve();
  }
}

/** A file that gets its name once it is complete. */
class WrittenArchive implements ArchiveTarget {
  readonly #path: string;
  readonly #partial: string;
  readonly #into: Writable;
  readonly #ended: Promise<void>;

  private constructor(path: string, partial: string) {
    this.#path = path;
    this.#partial = partial;
    const file = createWriteStream(partial);
    if (path.endsWith(".gz")) {
      const gzip = createGzip();
      this.#into = gzip;
      this.#ended = pipeline(gzip, file);
    } else {
      this.#into = file;
      this.#ended = finished(file);
    }
    this.#ended.catch(() => undefined);
  }

  static async open(path: string): Promise<WrittenArchive> {
    const partial = `${path}.partial`;
    try {
      await (await open(partial, "w")).close();
    } catch (cause) {
      throw new UsageError(`${partial} cannot be written: ${(cause as Error).message}`);
    }
    return new WrittenArchive(path, partial);
  }

  async write(data: Uint8Array): Promise<void> {
    // It says why.
    if (this.#into.destroyed) return this.#ended;
    if (!this.#into.write(data)) await once(this.#into, "drain");
  }

  async close(): Promise<void> {
    this.#into.end();
    await this.#ended;
    await rename(this.#partial, this.#path);
  }

  async abandon(): Promise<void> {
    this.#into.destroy();
    await this.#ended.catch(() => undefined);
    await rm(this.#partial, { force: true });
  }
}

/** The archive in a file, plain. */
async function* piecesOf(path: string, isCompressed: boolean): AsyncGenerator<Uint8Array> {
  const file = createReadStream(path, { highWaterMark: pieceBytes });
  const plain = isCompressed ? file.pipe(createGunzip()) : file;
  file.on("error", (error) => plain.destroy(error));
  try {
    for await (const chunk of plain) yield chunk as Uint8Array;
  } catch (cause) {
    throw codedError("INVALID_INPUT", `${path} cannot be read to its end: ${(cause as Error).message}`);
  } finally {
    file.destroy();
  }
}

async function isGzip(path: string): Promise<boolean> {
  try {
    const file = await open(path, "r");
    try {
      const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 0);
      return buffer[0] === 0x1f && buffer[1] === 0x8b;
    } finally {
      await file.close();
    }
  } catch (cause) {
    throw new UsageError(`the archive ${path} cannot be read: ${(cause as Error).message}`);
  }
}

/** Lines on standard error, once a second. */
class Progress {
  readonly #surroundings: Surroundings;
  readonly #isQuiet: boolean;
  #toldAtMs: number;

  constructor(surroundings: Surroundings, { json }: CommonFlags) {
    this.#surroundings = surroundings;
    this.#isQuiet = json === true;
    this.#toldAtMs = surroundings.nowMs();
  }

  tell(verb: string, counts: ArchiveCounts): void {
    this.#note(() => `${verb} ${spoken(counts)} so far\n`);
  }

  tellBytes(bytes: number): void {
    this.#note(() => `sent ${Math.floor(bytes / 1_048_576)} MiB so far\n`);
  }

  end(verb: string, counts: ArchiveCounts): void {
    if (!this.#isQuiet) this.#surroundings.note(`${verb} ${spoken(counts)}\n`);
  }

  #note(line: () => string): void {
    const now = this.#surroundings.nowMs();
    if (this.#isQuiet || now - this.#toldAtMs < progressEveryMs) return;
    this.#toldAtMs = now;
    this.#surroundings.note(line());
  }
}

function spoken({ contexts, events }: ArchiveCounts): string {
  return `${contexts.toLocaleString("en")} contexts, ${events.toLocaleString("en")} events`;
}
