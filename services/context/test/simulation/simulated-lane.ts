/** A lane of a simulated log: one connection, with at most one transaction. */
import type { CommitAnswer, CommitGroup, LastCommit, LogLane } from "../../src/log/log-store.js";
import type { Transaction } from "./simulated-log.js";
import { lastOf, SimulatedQueries } from "./simulated-queries.js";
import { unavailable } from "./statements.js";

/** What the lane has at the server: given up, it ends whatever it was doing. */
interface Connection {
  transaction: Transaction | null;
  isGivenUp: boolean;
}

/** Until the server notices that a connection is gone, milliseconds. */
const noticedMs = 5;

export class SimulatedLane extends SimulatedQueries implements LogLane {
  #connection: Connection = { transaction: null, isGivenUp: false };

  protected override get openTransaction(): Transaction | null {
    return this.#connection.transaction;
  }

  commit(group: CommitGroup): Promise<CommitAnswer> {
    const { transaction: open } = this.#connection;
    return this.statements.send("commit", (fate) =>
      this.within(open, fate, async (transaction) => {
        const taken = this.log.taken(group);
        const wanted = this.log.admitted(group, taken);
        for (const { contextId } of wanted.toSorted((one, other) => one.contextId - other.contextId)) {
          this.log.identify(transaction);
          await this.waitFor(transaction, `context ${contextId}`);
        }
        return this.log.write(transaction, group, wanted, taken);
      }),
    );
  }

  claimNextCommit(contextId: number): Promise<LastCommit | null> {
    const transaction = this.openTransaction!;
    return this.statements.send("claimNextCommit", async () => {
      const before = lastOf(this.log.byId(contextId)?.last ?? null);
      if (before === null) return null;
      this.log.identify(transaction);
      await this.waitFor(transaction, `context ${contextId}`);
      if (this.log.byId(contextId)?.last?.commitNo === before.commitNo) return before;
      this.log.unlock(transaction, `context ${contextId}`);
      return null;
    });
  }

  commitClaimed(group: CommitGroup): Promise<CommitAnswer> {
    const transaction = this.openTransaction!;
    return this.statements.send("commitClaimed", () => {
      if (transaction.isOver) throw unavailable();
      const taken = this.log.taken(group);
      return this.log.write(transaction, group, this.log.admitted(group, taken), taken);
    });
  }

  async transaction(work: () => Promise<boolean>): Promise<void> {
    const connection = this.#connection;
    try {
      await this.statements.send("begin", () => {
        if (!connection.isGivenUp) connection.transaction = this.log.begin();
      });
      const isCommitted = await work();
      const transaction = connection.transaction!;
      await this.statements.send(isCommitted ? "commit-transaction" : "rollback", () => {
        if (transaction.isOver) throw unavailable();
        if (isCommitted) this.log.commit(transaction);
        else this.log.abort(transaction);
      });
      connection.transaction = null;
    } catch (error) {
      this.drop();
      throw error;
    }
  }

  drop(): void {
    const connection = this.#connection;
    this.#connection = { transaction: null, isGivenUp: false };
    connection.isGivenUp = true;
    this.statements.time.after(noticedMs, () => {
      const { transaction } = connection;
      if (transaction !== null && !transaction.isOver) this.log.abort(transaction);
    });
  }

  close(): void {
    this.drop();
  }
}
