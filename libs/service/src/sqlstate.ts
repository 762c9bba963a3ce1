/**
 * Which answers of Postgres may go away by themselves. The one list: nothing else looks at SQLSTATEs to decide about a retry.
 */
import pg from "pg";

/** Whole classes: 08 connection exception, 53 insufficient resources, 58 system error outside Postgres. */
const retryableClasses: ReadonlySet<string> = new Set(["08", "53", "58"]);

const retryableStates: ReadonlySet<string> = new Set([
  "25006", // read-only transaction: a standby answered during a failover
  "25P03", // the transaction was idle too long
  "40001", // serialization failure
  "40003", // statement completion unknown
  "40P01", // deadlock
  "55P03", // lock not available
  "57014", // statement timeout, or cancelled by an operator
  "57P01", // the server shuts down
  "57P02", // the server crashed
  "57P03", // the server starts up
  "57P05", // the session was idle too long
]);

/** The SQLSTATE of an error that Postgres itself reported. */
export function sqlState(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined;
}

/**
 * Whether Postgres reported something that the same statement, sent again, may not meet. Says nothing about whether the statement
 * was applied: whoever sends it again must be able to tell by its ids.
 */
export function retryableSqlState(error: unknown): boolean {
  const state = sqlState(error);
  return state !== undefined && (retryableStates.has(state) || retryableClasses.has(state.slice(0, 2)));
}
