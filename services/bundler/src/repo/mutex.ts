/** One holder at a time, in order of arrival. */
export class Mutex {
  #tail: Promise<unknown> = Promise.resolve();

  /** Resolves when it is this caller's turn, to the function that ends the turn. */
  async lock(): Promise<() => void> {
    const before = this.#tail;
    let unlock!: () => void;
    this.#tail = new Promise<void>((resolve) => (unlock = resolve));
    await before;
    return unlock;
  }

  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    const unlock = await this.lock();
    try {
      return await work();
    } finally {
      unlock();
    }
  }
}
