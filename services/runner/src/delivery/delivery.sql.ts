/**
 * The statements on delivery rows. Every change is fenced on the row itself: the first thing it does is to update the row where the
 * epoch is not above the writer's and the version is the one the writer has seen; all else in the statement hangs on that row.
 */
import type { Statement } from "@iterate-platform/service/postgres";
import type { Charge, ContextKey, DeliveryRow, DeliveryStatus, OwedEvent, StoredCheckpoint } from "./contract.js";

const columns = `id, owner, path, name, configured_at, host, cursor, caught_up, status, resumed_at, attempt, charged, width, narrow_through,
  suspect, (extract(epoch from due_at - clock_timestamp()) * 1000)::float8 as due_in_ms, behind_through, reports_floor, epoch, version`;

export interface DeliveryColumns {
  readonly id: string;
  readonly owner: string;
  readonly path: string;
  readonly name: string;
  readonly configured_at: string;
  readonly host: string;
  readonly cursor: string;
  readonly caught_up: boolean;
  readonly status: DeliveryStatus;
  readonly resumed_at: string;
  readonly attempt: number;
  readonly charged: number;
  readonly width: number | null;
  readonly narrow_through: string | null;
  readonly suspect: boolean;
  readonly due_in_ms: number | null;
  readonly behind_through: string | null;
  readonly reports_floor: boolean;
  readonly epoch: string;
  readonly version: string;
}

export function deliveryRow(row: DeliveryColumns): DeliveryRow {
  return {
    id: Number(row.id),
    owner: row.owner,
    path: row.path,
    name: row.name,
    configuredAt: Number(row.configured_at),
    host: row.host,
    cursor: Number(row.cursor),
    caughtUp: row.caught_up,
    status: row.status,
    resumedAt: Number(row.resumed_at),
    charge: {
      attempt: row.attempt,
      charged: row.charged,
      width: row.width,
      narrowThrough: row.narrow_through === null ? null : Number(row.narrow_through),
      suspect: row.suspect,
    },
    dueInMs: row.due_in_ms,
    behindThrough: row.behind_through === null ? null : Number(row.behind_through),
    reportsFloor: row.reports_floor,
    epoch: BigInt(row.epoch),
    version: BigInt(row.version),
  };
}

/** Who writes a row, and what it has seen of it. */
export interface Fence {
  readonly id: number;
  readonly epoch: bigint;
  readonly version: bigint;
}

const fenced = `where id = $1 and epoch <= $2 and version = $3`;
const fenceValues = ({ id, epoch, version }: Fence): unknown[] => [id, String(epoch), String(version)];

/** All rows of a context, removed ones too. */
export function rowsOfContext({ owner, path }: ContextKey): Statement {
  return {
    name: "rows_of_context",
    text: `select ${columns} from delivery where owner = $1 and path = $2 order by name`,
    values: [owner, path],
  };
}

export function rowById(id: number): Statement {
  return { name: "row_by_id", text: `select ${columns} from delivery where id = $1`, values: [id] };
}

export interface NewRow extends ContextKey {
  readonly partition: number;
  readonly name: string;
  readonly configuredAt: number;
  readonly host: string;
  readonly cursor: number;
  readonly resumedAt: number;
  readonly epoch: bigint;
}

/** Makes the row unless there is one of this name. */
export function insertRow(row: NewRow): Statement {
  return {
    text: `
      insert into delivery (partition, owner, path, name, configured_at, host, cursor, resumed_at, epoch)
      values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
      on conflict (owner, path, name) do nothing`,
    values: [
      row.partition,
      row.owner,
      row.path,
      row.name,
      row.configuredAt,
      row.host,
      row.cursor,
      row.resumedAt,
      String(row.epoch),
    ],
  };
}

export interface Reconfiguration {
  readonly configuredAt: number;
  readonly host: string;
  readonly cursor: number;
  readonly status: DeliveryStatus;
  readonly resumedAt: number;
  /** False drops the state: its host is another, or it is made again from the new cursor. */
  readonly keepsCheckpoint: boolean;
}

/** Makes the row another one: its failures are forgotten, a fact of its halt not yet sent included. Answers it as it is afterwards; no row when the fence was lost. */
export function reconfigureRow(fence: Fence, next: Reconfiguration): Statement {
  return {
    text: `
      with changed as (
        update delivery set configured_at = $4, host = $5, cursor = $6, status = $7, resumed_at = $8, caught_up = false,
          attempt = 0, charged = 0, width = null, narrow_through = null, suspect = false, due_at = null,
          error_code = null, error_message = null, epoch = $2, version = version + 1
        ${fenced}
        returning ${columns}
      ), dropped as (
        delete from checkpoint using changed where checkpoint.delivery_id = changed.id and not $9
      ), outdated as (
        delete from outbox using changed where outbox.delivery_id = changed.id and outbox.kind = 'halt'
      )
      select * from changed`,
    values: [...fenceValues(fence), next.configuredAt, next.host, next.cursor, next.status, next.resumedAt, next.keepsCheckpoint],
  };
}

export interface BatchCommit {
  readonly cursor: number;
  readonly caughtUp: boolean;
  readonly charge: Charge;
  /** Null keeps the stored state. */
  readonly checkpoint: StoredCheckpoint | null;
  readonly owed: readonly OwedEvent[];
}

/**
 * Commits a delivered batch: cursor, state and what it emits, together or not at all. Answers one row with the new version; none when
 * the fence was lost.
 */
export function commitBatch(fence: Fence, commit: BatchCommit): Statement {
  const { charge, checkpoint } = commit;
  return {
    name: commit.owed.length === 0 ? "commit_batch" : "commit_batch_owed",
    text: `
      with changed as (
        update delivery set cursor = $4, caught_up = $5, status = 'active', attempt = $6, charged = $7, width = $8, narrow_through = $9,
          suspect = $10, due_at = null, error_code = null, error_message = null, epoch = $2, version = version + 1,
          behind_through = case when behind_through <= $4 and $5 then null else behind_through end
        ${fenced}
        returning id, partition, version, behind_through
      ), stored as (
        insert into checkpoint (delivery_id, version, state)
        select id, $11, $12 from changed where $12::text is not null
        on conflict (delivery_id) do update set version = excluded.version, state = excluded.state
      )${commit.owed.length === 0 ? "" : `, ${insertOwed(13)}`}
      select version, behind_through from changed`,
    values: [
      ...fenceValues(fence),
      commit.cursor,
      commit.caughtUp,
      charge.attempt,
      charge.charged,
      charge.width,
      charge.narrowThrough,
      charge.suspect,
      checkpoint?.version ?? null,
      checkpoint?.state ?? null,
      ...(commit.owed.length === 0 ? [] : owedValues(commit.owed)),
    ],
  };
}

export interface SetbackCommit {
  readonly status: DeliveryStatus;
  readonly charge: Charge;
  /** Null when nothing is due: the row halts. */
  readonly dueInMs: number | null;
  readonly error: { readonly code: string; readonly message: string };
  readonly owed: readonly OwedEvent[];
}

/** Commits that an attempt did not succeed, with the facts it makes. Answers one row; none when the fence was lost. */
export function commitSetback(fence: Fence, commit: SetbackCommit): Statement {
  const { charge } = commit;
  return {
    name: commit.owed.length === 0 ? "commit_setback" : "commit_setback_owed",
    text: `
      with changed as (
        update delivery set status = $4, attempt = $5, charged = $6, width = $7, narrow_through = $8, suspect = $9,
          due_at = clock_timestamp() + $10::float8 * interval '1 millisecond', error_code = $11, error_message = $12,
          epoch = $2, version = version + 1
        ${fenced}
        returning id, partition, version, behind_through
      )${commit.owed.length === 0 ? "" : `, ${insertOwed(13)}`}
      select version, behind_through from changed`,
    values: [
      ...fenceValues(fence),
      commit.status,
      charge.attempt,
      charge.charged,
      charge.width,
      charge.narrowThrough,
      charge.suspect,
      commit.dueInMs,
      commit.error.code,
      commit.error.message,
      ...(commit.owed.length === 0 ? [] : owedValues(commit.owed)),
    ],
  };
}

/** Ends a wait for something that was away: nothing is due any more. A halted or removed row stays so and keeps its error. */
export function endWait(fence: Fence): Statement {
  return {
    name: "end_wait",
    text: `
      update delivery set due_at = null, epoch = $2, version = version + 1,
        status = case when status in ('halted', 'removed') then status else 'active' end,
        error_code = case when status in ('halted', 'removed') then error_code end,
        error_message = case when status in ('halted', 'removed') then error_message end
      ${fenced} returning version, behind_through`,
    values: fenceValues(fence),
  };
}

/**
 * Lets what waits after a failure be tried now, as if nothing had failed before: its code is another. It may be sent by any pod, for it
 * decides nothing about the delivery; the new version makes an owner that has an attempt under way read the row again.
 */
export function endBackOff(owner: string, places: readonly { readonly path: string; readonly name: string }[]): Statement {
  return {
    name: "end_back_off",
    text: `
      update delivery set due_at = clock_timestamp(), attempt = 0, charged = 0, version = version + 1
      from unnest($2::text[], $3::text[]) as place (path, name)
      where delivery.owner = $1 and delivery.path = place.path and delivery.name = place.name
        and status = 'retrying' and due_at is not null`,
    values: [owner, places.map(({ path }) => path), places.map(({ name }) => name)],
  };
}

/** Stores a cursor that moved over events nobody takes. */
export function moveCursor(fence: Fence, cursor: number): Statement {
  return {
    name: "move_cursor",
    text: `
      update delivery set cursor = $4, epoch = $2, version = version + 1,
        behind_through = case when behind_through <= $4 and caught_up then null else behind_through end
      ${fenced}
      returning version, behind_through`,
    values: [...fenceValues(fence), cursor],
  };
}

/**
 * Notes that the watermark is about to pass undelivered commits. The mark only ever grows here and is cleared by a cursor beyond it,
 * so it needs no version: whatever else is written to the row meanwhile, neither loses the other.
 */
export function markBehind(marks: readonly { readonly id: number; readonly through: number; readonly epoch: bigint }[]): Statement {
  return {
    name: "mark_behind",
    text: `
      update delivery set epoch = mark.epoch, behind_through =
        case when cursor >= mark.through and caught_up then behind_through else greatest(behind_through, mark.through) end
      from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as mark (id, through, epoch)
      where delivery.id = mark.id and delivery.epoch <= mark.epoch
      returning delivery.id, mark.through`,
    values: [marks.map(({ id }) => id), marks.map(({ through }) => through), marks.map(({ epoch }) => String(epoch))],
  };
}

/** Contexts of a partition with something that is not at rest: passed by the watermark, or owing events. Paged by row id. */
export function contextsNotAtRest(partition: number, afterId: number, limit: number): Statement {
  return {
    name: "contexts_not_at_rest",
    text: `
      select id, owner, path from delivery where id in (
        select id from delivery where partition = $1 and behind_through is not null
        union
        select delivery_id from outbox where partition = $1
      ) and id > $2 order by id limit $3`,
    values: [partition, afterId, limit],
  };
}

/** Contexts of these partitions with an attempt due now, the longest overdue first. */
export function contextsDue(partitions: readonly number[], limit: number): Statement {
  return {
    name: "contexts_due",
    text: `
      select partition, owner, path from delivery
      where partition = any($1::smallint[]) and due_at <= clock_timestamp() order by due_at limit $2`,
    values: [partitions, limit],
  };
}

/** The stored state of a row. */
export function checkpointOf(id: number): Statement {
  return { name: "checkpoint_of", text: `select version, state from checkpoint where delivery_id = $1`, values: [id] };
}

function insertOwed(first: number): string {
  const array = (place: number, type: string): string => `$${first + place}::${type}[]`;
  return `owed as (
        insert into outbox (id, delivery_id, partition, batch, ordinal, kind, event, code, chain, depth, principal, traceparent)
        select entry.id, changed.id, changed.partition, changed.version, entry.ordinal, entry.kind, entry.event, entry.code, entry.chain,
          entry.depth, entry.principal, entry.traceparent
        from changed, unnest(${array(0, "uuid")}, ${array(1, "text")}, ${array(2, "bytea")}, ${array(3, "text")}, ${array(4, "text")},
          ${array(5, "int")}, ${array(6, "text")}, ${array(7, "text")})
          with ordinality as entry (id, kind, event, code, chain, depth, principal, traceparent, ordinal)
      )`;
}

function owedValues(owed: readonly OwedEvent[]): unknown[] {
  return [
    owed.map(({ id }) => id),
    owed.map(({ kind }) => kind),
    owed.map(({ event }) => Buffer.from(event)),
    owed.map(({ code }) => code),
    owed.map(({ cause }) => cause.chain),
    owed.map(({ cause }) => cause.depth),
    owed.map(({ principal }) => principal),
    owed.map(({ traceparent }) => traceparent),
  ];
}
