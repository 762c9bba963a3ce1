/** A lane of the log on one connection of a Postgres pool. */
import { sqlState } from "@iterate-platform/service/sqlstate";
import { AlreadyStored } from "../already-stored.js";
import type { CommitAnswer, CommitGroup, LastCommit, LogLane, TakenKey } from "../log-store.js";
import { commitValues } from "./commit-values.js";
import { commitStatement, type CommitRow } from "./commit.sql.js";
import { claimNextCommit, type LastCommitRow } from "./head.sql.js";
import { lastCommit, PostgresQueries } from "./queries.js";
import type { LaneSession } from "./sql-session.js";

const uniqueViolation = "23505";

export class PostgresLane extends PostgresQueries<LaneSession> implements LogLane {
  commit(group: CommitGroup): Promise<CommitAnswer> {
    return this.#commit(group, false);
  }

  async claimNextCommit(contextId: number): Promise<LastCommit | null> {
    const [row] = await this.session.query<LastCommitRow>(claimNextCommit, [contextId]);
    return row === undefined ? null : lastCommit(row);
  }

  commitClaimed(group: CommitGroup): Promise<CommitAnswer> {
    return this.#commit(group, true);
  }

  transaction(work: () => Promise<boolean>): Promise<void> {
    return this.session.transaction(work);
  }

  drop(): void {
    this.session.drop();
  }

  close(): void {
    this.session.close();
  }

  async #commit(group: CommitGroup, isClaimed: boolean): Promise<CommitAnswer> {
    const { shape, values } = commitValues(group, isClaimed);
    try {
      return answerOf(await this.session.query<CommitRow>(commitStatement(shape), values));
    } catch (error) {
      throw sqlState(error) === uniqueViolation ? new AlreadyStored(error) : error;
    }
  }
}

function answerOf(rows: readonly CommitRow[]): CommitAnswer {
  const landed = new Set<number>();
  const taken = new Map<number, TakenKey[]>();
  let atUs = 0;
  for (const [id, us, key, offset, digest, source] of rows) {
    const contextId = Number(id);
    if (key === null) {
      landed.add(contextId);
      atUs = Number(us);
      continue;
    }
    const one = { contextId, key, offset: Number(offset), createdAtUs: Number(us), digest: digest!, source: source! };
    const others = taken.get(contextId);
    if (others === undefined) taken.set(contextId, [one]);
    else others.push(one);
  }
  return { atUs, landed, taken };
}
