/** A lane of a simulated log: one connection, with at most one transaction. */
import type { CommitAnswer, CommitGroup, LastCommit, LogLane } from "../../src/log/log-store.js";
import type { Transaction } from "./simulated-log.js";
import { lastOf, SimulatedQueries } from "./simulated-queries.js";
import { unavailable } from "./statements.js";

export class SimulatedLane extends SimulatedQueries implements LogLane {
  #transaction: Transaction | null = null;

  protected override get openTransaction(): Transaction | null {
    return this.#transaction;
  }

  commit(group: CommitGroup): Promise<CommitAnswer> {
    return this.statements.send("commit", (fate) =>
      this.within(fate, async (transaction) => {
        const taken = this.log.taken(group);
        const wanted =
          group.generation === this.log.generation ? group.commits.filter(({ contextId }) => !taken.has(contextId)) : [];
        for (const { contextId } of wanted.toSorted((one, other) => one.contextId - other.contextId)) {
          this.log.identify(transaction);
          await this.waitFor(transaction, `context ${contextId}`);
        }
        return this.log.write(transaction, group, wanted, taken);
      }),
    );
  }

  claimNextCommit(contextId: number): Promise<LastCommit | null> {
    return this.statements.send("claimNextCommit", async () => {
      const transaction = this.#transaction!;
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
    return this.statements.send("commitClaimed", () => {
      const transaction = this.#transaction!;
      if (transaction.isOver) throw unavailable();
      const taken = this.log.taken(group);
      const wanted = group.generation === this.log.generation ? group.commits.filter(({ contextId }) => !taken.has(contextId)) : [];
      return this.log.write(transaction, group, wanted, taken);
    });
  }

  async transaction(work: () => Promise<boolean>): Promise<void> {
    try {
      await this.statements.send("begin", () => void (this.#transaction = this.log.begin()));
      const isCommitted = await work();
      await this.statements.send(isCommitted ? "commit-transaction" : "rollback", () => {
        const transaction = this.#transaction!;
        if (transaction.isOver) throw unavailable();
        if (isCommitted) this.log.commit(transaction);
        else this.log.abort(transaction);
      });
      this.#transaction = null;
    } catch (error) {
      this.drop();
      throw error;
    }
  }

  /** The server notices a little later. */
  drop(): void {
    const transaction = this.#transaction;
    this.#transaction = null;
    if (transaction === null || transaction.isOver) return;
    this.statements.time.after(5, () => {
      if (!transaction.isOver) this.log.abort(transaction);
    });
  }

  close(): void {
    this.drop();
  }
}
