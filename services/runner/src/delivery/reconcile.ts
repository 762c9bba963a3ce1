/**
 * What must happen to a context's delivery rows so that they say what its subscription table says. Pure.
 *
 * A row follows its subscription by name. Configured anew it is another row: failures are forgotten and a halt ends. Its state stays
 * while the host is the same, and then delivery goes on at the cursor, for a processor folds its log once; another host starts at the
 * subscription's own place without state. A resume ends a halt, and may seek: forward skips, backward drops the state, which is then
 * folded again from there.
 */
import type { DeliveryRow } from "./contract.js";
import type { NewRow, Reconfiguration } from "./delivery.sql.js";
import { hostOf, type Target } from "./target.js";

/** A row of the subscription table. */
export interface Subscribed {
  readonly name: string;
  readonly target: Target;
  /** Types delivered; empty means every event. */
  readonly consumes: readonly string[];
  readonly afterOffset: number;
  readonly configuredAt: number;
  /** Offset of the last resume; 0 when there is none. */
  readonly resumedAt: number;
  /** Where that resume asked to continue; null when it named no place. */
  readonly resumedAfter: number | null;
}

/** Types a subscription filters by; empty when it takes every event. */
export function takenTypes({ consumes }: { readonly consumes: readonly string[] }): readonly string[] {
  return consumes.includes("*") ? [] : consumes;
}

export type RowChange =
  | { readonly kind: "insert"; readonly row: Pick<NewRow, "name" | "configuredAt" | "host" | "cursor" | "resumedAt"> }
  | { readonly kind: "reconfigure"; readonly row: DeliveryRow; readonly next: Reconfiguration };

export function reconcile(rows: readonly DeliveryRow[], subscribed: readonly Subscribed[]): RowChange[] {
  const byName = new Map(rows.map((row) => [row.name, row]));
  const changes: RowChange[] = [];
  for (const subscription of subscribed) {
    const row = byName.get(subscription.name);
    byName.delete(subscription.name);
    if (row === undefined) changes.push({ kind: "insert", row: newRow(subscription) });
    else {
      const next = reconfiguration(row, subscription);
      if (next !== undefined) changes.push({ kind: "reconfigure", row, next });
    }
  }
  for (const row of byName.values()) {
    if (row.status !== "removed") changes.push({ kind: "reconfigure", row, next: { ...kept(row), status: "removed" } });
  }
  return changes;
}

function newRow({ name, target, configuredAt, afterOffset, resumedAt, resumedAfter }: Subscribed) {
  return { name, configuredAt, host: hostOf(target), cursor: resumedAfter ?? afterOffset, resumedAt };
}

function reconfiguration(row: DeliveryRow, subscription: Subscribed): Reconfiguration | undefined {
  const { configuredAt, resumedAt, resumedAfter } = subscription;
  const host = hostOf(subscription.target);
  const isAnother = row.configuredAt !== configuredAt || row.status === "removed";
  if (!isAnother && resumedAt <= row.resumedAt) return undefined;
  const isSameHost = row.host === host;
  const cursor = isSameHost ? row.cursor : subscription.afterOffset;
  const seek = resumedAt > 0 ? resumedAfter : null;
  return {
    configuredAt,
    host,
    cursor: seek ?? cursor,
    status: "active",
    resumedAt,
    keepsCheckpoint: isSameHost && (seek === null || seek >= row.cursor),
  };
}

function kept(row: DeliveryRow): Omit<Reconfiguration, "status"> {
  return { configuredAt: row.configuredAt, host: row.host, cursor: row.cursor, resumedAt: row.resumedAt, keepsCheckpoint: true };
}
