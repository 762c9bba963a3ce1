/** What other services and code ask about subscriptions. */
import type { Statement } from "@iterate-platform/service/postgres";
import type { ContextKey, DeliveryStatus } from "./contract.js";

export interface ProcessorRow {
  /** int8 as text. */
  readonly cursor: string;
  /** Contract version that made the state; null before the first checkpoint. */
  readonly version: string | null;
  /** JSON; null before the first checkpoint. */
  readonly state: string | null;
}

/** A subscription with the state it has made. No row when there is none of this name. */
export function snapshotOf({ owner, path }: ContextKey, name: string): Statement {
  return {
    name: "snapshot_of",
    text: `
      select cursor, checkpoint.version, state
      from delivery left join checkpoint on checkpoint.delivery_id = delivery.id
      where owner = $1 and path = $2 and name = $3 and status <> 'removed'`,
    values: [owner, path, name],
  };
}

export interface LeaseColumns {
  readonly pod: string | null;
  readonly epoch: string;
  readonly expires_in_ms: string;
}

export function leaseOf(partition: number): Statement {
  return {
    name: "lease_of",
    text: `select pod, epoch, 
        (extract(epoch from least(greatest(expires_at, now() - interval '1 day'), now() + interval '1 day') - now()) * 1000)::bigint as expires_in_ms
      from partition_lease where partition = $1`,
    values: [partition],
  };
}

export interface ExplainedColumns extends ListedColumns {
  readonly configured_at: string;
  readonly epoch: string;
  readonly suspect: boolean;
}

/** Those of the named subscriptions of a context that the runner has taken up. */
export function explainedDeliveries({ owner, path }: ContextKey, names: readonly string[]): Statement {
  return {
    name: "explained_deliveries",
    text: `
      select path, name, status, cursor, attempt, due_at, error_code, error_message, configured_at, epoch, suspect from delivery
      where owner = $1 and path = $2 and name = any($3) and status <> 'removed' order by name`,
    values: [owner, path, names],
  };
}

export interface ListedColumns {
  readonly path: string;
  readonly name: string;
  readonly status: DeliveryStatus;
  readonly cursor: string;
  readonly attempt: number;
  readonly due_at: Date | null;
  readonly error_code: string | null;
  readonly error_message: string | null;
}

/** Subscriptions of a project, or of one of its contexts, after a place in the order of path and name. */
export function listDeliveries(
  owner: string,
  path: string | null,
  after: { readonly path: string; readonly name: string },
  limit: number,
): Statement {
  return {
    name: "list_deliveries",
    text: `
      select path, name, status, cursor, attempt, due_at, error_code, error_message from delivery
      where owner = $1 and ($2::text is null or path = $2) and (path, name) > ($3, $4) and status <> 'removed'
      order by path, name limit $5`,
    values: [owner, path, after.path, after.name, limit],
  };
}
