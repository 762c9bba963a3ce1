/** The generation of a database of the log: raised when it was restored from a backup. */
import type { SqlSession, Statement } from "./sql-session.js";

const raiseGeneration: Statement = {
  name: "raise_generation",
  text: `update shard set generation = generation + 1 returning generation`,
};

export class GenerationStore {
  readonly #session: SqlSession;

  constructor(session: SqlSession) {
    this.#session = session;
  }

  /** The generation from now on. @throws CodedError UNAVAILABLE: it may or may not be raised. */
  async raise(): Promise<number> {
    const [row] = await this.#session.query<readonly [number]>(raiseGeneration, []);
    return row![0];
  }
}
