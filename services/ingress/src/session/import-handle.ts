/** An import as a session holds it: pieces go in, a project comes out, and whatever ends the session before leaves nothing. */
import type { ImportApi, ImportedProject } from "iterate/api";
import { codedError } from "iterate/lib";
import { ApiTarget } from "./api-target.js";
import { PieceFeed } from "./piece-feed.js";

/** Bytes of one piece. */
export const maxPieceBytes = 1_048_576;

export interface ImportHandleOptions {
  readonly start: (data: AsyncIterable<Uint8Array>, signal: AbortSignal) => Promise<ImportedProject>;
  /** Aborts when the socket is gone. */
  readonly signal: AbortSignal;
  readonly onEnd: () => void;
}

export class ImportHandle extends ApiTarget implements ImportApi {
  readonly #feed = new PieceFeed();
  readonly #leaving = new AbortController();
  readonly #imported: Promise<ImportedProject>;
  #isWriting = false;

  constructor({ start, signal, onEnd }: ImportHandleOptions) {
    super();
    const either = AbortSignal.any([signal, this.#leaving.signal]);
    const leave = (): void => this.#feed.fail(codedError("CANCELLED", "the import was given up by its client"));
    either.addEventListener("abort", leave, { once: true });
    this.#imported = start(this.#feed.pieces(), either).finally(() => {
      either.removeEventListener("abort", leave);
      onEnd();
    });
    this.#imported.catch((error: unknown) => this.#feed.fail(error instanceof Error ? error : new Error(String(error))));
  }

  async write(piece: Uint8Array): Promise<void> {
    if (!(piece instanceof Uint8Array) || piece.length > maxPieceBytes)
      throw codedError("INVALID_INPUT", `import.write: a piece is at most ${maxPieceBytes} bytes`, { limit: maxPieceBytes });
    if (this.#isWriting) throw codedError("INVALID_INPUT", "import.write: the piece before was not answered yet; await it");
    this.#isWriting = true;
    try {
      await this.#feed.put(piece);
    } finally {
      this.#isWriting = false;
    }
  }

  finish(): Promise<ImportedProject> {
    this.#feed.end();
    return this.#imported;
  }

  [Symbol.dispose](): void {
    this.#leaving.abort();
  }
}
