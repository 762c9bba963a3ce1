/**
 * The lines of one service on disk, in two files at most: the current one and, once that is full, its predecessor.
 */
import { createWriteStream, mkdirSync, renameSync, type WriteStream } from "node:fs";
import { dirname } from "node:path";

const maxBytes = 32 * 1024 * 1024;

export class LogFile {
  readonly #path: string;
  #stream: WriteStream;
  #bytes = 0;

  /** Starts an empty file at `path`. */
  constructor(path: string) {
    mkdirSync(dirname(path), { recursive: true });
    this.#path = path;
    this.#stream = open(path);
  }

  write(line: string): void {
    this.#stream.write(`${line}\n`);
    this.#bytes += line.length + 1;
    if (this.#bytes < maxBytes) return;
    this.#stream.end();
    renameSync(this.#path, `${this.#path}.1`);
    this.#stream = open(this.#path);
    this.#bytes = 0;
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => this.#stream.end(resolve));
  }
}

function open(path: string): WriteStream {
  const stream = createWriteStream(path, { flags: "w" });
  // A full disk must not end the stack; the lines are on the console too.
  stream.on("error", () => undefined);
  return stream;
}
