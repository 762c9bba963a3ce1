/** The statements on rows of runs. A row is made by the owner that takes the run up and changes no more; it goes when the run has ended. */
import type { Statement } from "@iterate-platform/service/postgres";
import type { ContextKey } from "../delivery/contract.js";

export interface RunColumns {
  readonly request_offset: string;
  readonly epoch: string;
  readonly is_late: boolean;
}

export interface RunToTake {
  readonly requestOffset: number;
  readonly deadlineMs: number;
}

/**
 * Takes up those of the open runs that nobody has, forgets those that are open no more, and answers the rows of the open ones. An owner that
 * is late forgets nothing that a newer one has taken up.
 */
export function runsInStep(
  { owner, path }: ContextKey,
  { partition, epoch }: { readonly partition: number; readonly epoch: bigint },
  open: readonly RunToTake[],
): Statement {
  return {
    name: "runs_in_step",
    text: `with open as (
      select * from unnest($5::bigint[], $6::int[]) o(request_offset, deadline_ms)
    ), ended as (
      delete from run where owner = $1 and path = $2 and epoch <= $4 and not request_offset = any($5::bigint[])
    ), taken as (
      insert into run (owner, path, request_offset, partition, epoch, due_at)
      select $1, $2, request_offset, $3, $4, now() + deadline_ms * interval '1 millisecond' from open
      on conflict do nothing
      returning request_offset, epoch, false as is_late
    )
    select request_offset, epoch, due_at <= now() as is_late from run
      where owner = $1 and path = $2 and request_offset = any($5::bigint[])
    union all select * from taken order by 1`,
    values: [owner, path, partition, String(epoch), open.map((run) => run.requestOffset), open.map((run) => run.deadlineMs)],
  };
}

export interface TakenColumns {
  readonly request_offset: string;
  readonly epoch: string;
  readonly due_at: Date;
}

/** Those of the runs that an owner has taken up. */
export function takenRuns({ owner, path }: ContextKey, requestOffsets: readonly bigint[]): Statement {
  return {
    name: "taken_runs",
    text: `select request_offset, epoch, due_at from run
      where owner = $1 and path = $2 and request_offset = any($3::bigint[]) order by request_offset`,
    values: [owner, path, requestOffsets.map(String)],
  };
}

/** Up to `limit` contexts of the partition, after the one named, that have a run which an older owner took up. */
export function contextsOfOlderRuns(partition: number, epoch: bigint, after: ContextKey | null, limit: number): Statement {
  return {
    name: "contexts_of_older_runs",
    text: `select distinct owner, path from run
      where partition = $1 and epoch < $2 and (owner, path) > ($3, $4) order by owner, path limit $5`,
    values: [partition, String(epoch), after?.owner ?? "", after?.path ?? "", limit],
  };
}

/** Contexts of these partitions with a run that is past its deadline. */
export function contextsOfLateRuns(partitions: readonly number[], limit: number): Statement {
  return {
    name: "contexts_of_late_runs",
    text: `select distinct partition, owner, path from (
      select partition, owner, path from run where partition = any($1) and due_at <= now() order by due_at limit $2
    ) late`,
    values: [partitions, limit],
  };
}
