/**
 * Open runs as the owner of their partition keeps them: each is taken up by the first owner that sees it. A run that a former owner had
 * taken up has ended with it, and one that is past its deadline has ended too; the log is told, in one append, and the rows go once it
 * says that they are open no more. Nothing else ends a run here: that a context is looked up again, by the same owner, does not.
 *
 * Running code is no part of this: a run that is taken up stays open until its deadline.
 */
import type { EventInput } from "@iterate-platform/proto/iterate/type/v1/event";
import type { Queryable } from "@iterate-platform/service/postgres";
import { itx } from "iterate/events";
import type { z } from "zod";
import type { ContextKey } from "../delivery/contract.js";
import type { Lease } from "../lease/lease.js";
import type { ContextLog } from "../log/contract.js";
import { runsInStep, type RunColumns, type RunToTake } from "./run.sql.js";

/** Records of one append; what is left is told by the next look, which it causes. */
const maxRecords = 1_000;

export interface OpenRunsParts {
  readonly db: Queryable;
  readonly log: Pick<ContextLog, "append">;
  /** A token for what the platform records in a context, as the owner of its partition. */
  readonly recordToken: (context: ContextKey, lease: Lease) => Promise<string>;
}

type Settlement = z.infer<typeof itx.runSettled.payload>["settlement"];

export class OpenRuns {
  readonly #parts: OpenRunsParts;

  constructor(parts: OpenRunsParts) {
    this.#parts = parts;
  }

  /**
   * Brings the rows of a context in step with the runs it has open, and ends those that cannot go on. True when it ended some: the context
   * is then to be looked up again.
   *
   * @throws CodedError as an append: a conflict when a run ended meanwhile; look again.
   */
  async keepInStep(context: ContextKey, lease: Lease, open: readonly RunToTake[]): Promise<boolean> {
    const { rows } = await this.#parts.db.query<RunColumns>(runsInStep(context, lease, open));
    const records = endings(rows, lease.epoch);
    if (records.length === 0) return false;
    const execution = await this.#parts.recordToken(context, lease);
    await this.#parts.log.append(context, records.slice(0, maxRecords), { execution, signal: lease.signal });
    return true;
  }
}

/** What is recorded: first, where a former owner had runs, that another incarnation began. */
export function endings(rows: readonly RunColumns[], epoch: bigint): EventInput[] {
  const interrupted = rows.filter((row) => BigInt(row.epoch) < epoch);
  const late = rows.filter((row) => row.is_late && BigInt(row.epoch) >= epoch);
  return [
    ...(interrupted.length === 0 ? [] : [woken(epoch)]),
    ...interrupted.map(({ request_offset }) =>
      settled(Number(request_offset), {
        outcome: "failed",
        failureKind: "interrupted",
        error: { code: "ISOLATE_LOST", message: "the process that had taken the run up is gone" },
      }),
    ),
    ...late.map(({ request_offset }) =>
      settled(Number(request_offset), {
        outcome: "failed",
        failureKind: "deadline",
        error: { code: "DEADLINE_EXCEEDED", message: "the run did not end within its deadline" },
      }),
    ),
  ];
}

function woken(epoch: bigint): EventInput {
  return record(itx.woken.type, { incarnation: Number(epoch), cause: "take-over" }, `itx/woken:${epoch}`);
}

function settled(requestOffset: number, settlement: Settlement): EventInput {
  return record(itx.runSettled.type, { requestOffset, settlement });
}

function record(type: string, payload: unknown, idempotencyKey = ""): EventInput {
  return { type, payload: Buffer.from(JSON.stringify(payload)), idempotencyKey, formatVersion: 0, ephemeral: false };
}
