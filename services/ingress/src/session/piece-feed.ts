/** Hands pieces from one side to the other, one at a time: whoever gives the next one waits until the last one was taken. */
export class PieceFeed {
  #piece: Uint8Array | null = null;
  #isOver = false;
  #failure: Error | null = null;
  #taken: (() => void) | null = null;
  #given: (() => void) | null = null;

  /** Resolves when the piece was taken; rejects when the feed failed. One call at a time. */
  async put(piece: Uint8Array): Promise<void> {
    this.#check();
    this.#piece = piece;
    const taken = new Promise<void>((resolve) => (this.#taken = resolve));
    this.#given?.();
    await taken;
    this.#check();
  }

  /** Nothing follows. */
  end(): void {
    this.#isOver = true;
    this.#given?.();
  }

  /** Both sides are told; the first reason counts. */
  fail(reason: Error): void {
    this.#failure ??= reason;
    this.#given?.();
    this.#taken?.();
  }

  /** The pieces, for one reader. */
  async *pieces(): AsyncGenerator<Uint8Array> {
    for (;;) {
      this.#check();
      const piece = this.#piece;
      if (piece !== null) {
        this.#piece = null;
        yield piece;
        this.#taken?.();
      } else if (this.#isOver) return;
      else await new Promise<void>((resolve) => (this.#given = resolve));
    }
  }

  #check(): void {
    if (this.#failure !== null) throw this.#failure;
  }
}
