/** The statements on the outbox: events owed to a log by a committed batch, and the dead letters it leaves. */
import type { Statement } from "@iterate-platform/service/postgres";
import type { OwedEvent } from "./contract.js";

export interface OwedColumns {
  readonly id: string;
  readonly kind: OwedEvent["kind"];
  readonly event: Buffer;
  readonly code: string;
  readonly chain: string;
  readonly depth: number;
  readonly principal: string | null;
  readonly traceparent: string;
}

export function owedEvent(row: OwedColumns): OwedEvent {
  const { id, kind, event, code, chain, depth, principal, traceparent } = row;
  return { id, kind, event, code, cause: { chain, depth }, principal, traceparent };
}

/** The oldest events a subscription owes, in the order they were emitted: at most `limit`. */
export function owedBy(deliveryId: number, limit: number): Statement {
  return {
    name: "owed_by",
    text: `
      select id, kind, event, code, chain, depth, principal, traceparent from outbox
      where delivery_id = $1 order by batch, ordinal limit $2`,
    values: [deliveryId, limit],
  };
}

/** Forgets events that their log has answered. */
export function settleOwed(ids: readonly string[]): Statement {
  return { name: "settle_owed", text: `delete from outbox where id = any($1::uuid[])`, values: [ids] };
}

/**
 * Ends an event that was refused for good: it becomes a dead letter, and `fact` takes its place in the outbox. Repeating it changes
 * nothing: only the row's removal does the rest.
 */
export function buryOwed(id: string, error: { readonly code: string; readonly message: string }, fact: OwedEvent): Statement {
  return {
    text: `
      with removed as (
        delete from outbox where id = $1 returning *
      ), buried as (
        insert into dead_letter (id, delivery_id, owner, path, name, event, error_code, error_message)
        select removed.id, removed.delivery_id, delivery.owner, delivery.path, delivery.name, removed.event, $2, $3
        from removed join delivery on delivery.id = removed.delivery_id
      )
      insert into outbox (id, delivery_id, partition, batch, ordinal, kind, event, code, chain, depth, principal, traceparent)
      select $4, delivery_id, partition, batch, ordinal, 'fact', $5, $6, $7, $8, $9, $10 from removed`,
    values: [
      id,
      error.code,
      error.message,
      fact.id,
      Buffer.from(fact.event),
      fact.code,
      fact.cause.chain,
      fact.cause.depth,
      fact.principal,
      fact.traceparent,
    ],
  };
}
