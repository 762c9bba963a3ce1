/**
 * The runs of a context that were asked for and have not ended. Each ends by one fact; what has ended leaves the state and stays in the
 * log. A repetition is another run that names the one it repeats.
 */
import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import type { z } from "zod";
import type { ControlEvent, RunRow, RunsState } from "./contract.js";
import type { Reducer } from "./reducer.js";

type Requested = z.infer<typeof itx.runRequested.payload>;
type Settled = z.infer<typeof itx.runSettled.payload>;
type Woken = z.infer<typeof itx.woken.payload>;
type Truncated = z.infer<typeof itx.logTruncated.payload>;

export const runs: Reducer<RunsState> = {
  initial: { incarnation: 0, open: {} },
  types: [itx.runRequested.type, itx.runSettled.type, itx.woken.type],
  judges: [itx.logTruncated.type],

  reduce(state, { type, offset, payload }) {
    switch (type) {
      case itx.runRequested.type:
        return { ...state, open: { ...state.open, [offset]: rowOf(payload as Requested, offset) } };
      case itx.runSettled.type: {
        const { requestOffset } = payload as Settled;
        if (!isOpen(state, requestOffset)) return state;
        const { [requestOffset]: _, ...open } = state.open;
        return { ...state, open };
      }
      default: {
        const { incarnation } = payload as Woken;
        return incarnation <= state.incarnation ? state : { ...state, incarnation };
      }
    }
  },

  check(state, { type, payload }: ControlEvent) {
    switch (type) {
      case itx.runRequested.type:
        return checkRoom(state);
      case itx.runSettled.type:
        return checkOpen(state, payload as Settled);
      case itx.woken.type:
        return checkNewer(state, payload as Woken);
      default:
        return checkKept(state, payload as Truncated);
    }
  },
};

/** Offset of the oldest request that is not settled; `null` when there is none. */
export function oldestOpenRun({ open }: RunsState): number | null {
  const offsets = Object.values(open).map(({ requestOffset }) => requestOffset);
  return offsets.length === 0 ? null : Math.min(...offsets);
}

function rowOf({ deadlineMs, ancestor, limitKey }: Requested, offset: number): RunRow {
  return {
    requestOffset: offset,
    deadlineMs: deadlineMs ?? itx.runLimits.deadlineMs,
    ancestor: ancestor ?? null,
    limitKey: limitKey ?? null,
  };
}

function isOpen({ open }: RunsState, requestOffset: number): boolean {
  return Object.hasOwn(open, requestOffset);
}

function checkRoom({ open }: RunsState): void {
  const count = Object.keys(open).length;
  if (count < itx.runLimits.open) return;
  throw codedError("INVALID_INPUT", `the context has ${count} runs that have not ended; wait for one`, {
    limit: itx.runLimits.open,
  });
}

function checkOpen(state: RunsState, { requestOffset }: Settled): void {
  if (isOpen(state, requestOffset)) return;
  throw codedError("OFFSET_CONFLICT", `no run that was asked for at offset ${requestOffset} is open`, { requestOffset });
}

function checkNewer({ incarnation: current }: RunsState, { incarnation }: Woken): void {
  if (incarnation > current) return;
  throw codedError("STALE_EPOCH", `incarnation ${incarnation} has been followed by ${current}`, { epoch: incarnation, current });
}

function checkKept(state: RunsState, { firstOffset, decidedAtOffset }: Truncated): void {
  const oldest = oldestOpenRun(state);
  if (oldest === null || oldest >= firstOffset) return;
  throw codedError("OFFSET_CONFLICT", `the run that was asked for at offset ${oldest} has not ended`, { decidedAtOffset });
}
