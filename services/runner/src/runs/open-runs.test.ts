import { itx } from "iterate/events";
import { describe, expect, it } from "vitest";
import { endings } from "./open-runs.js";
import type { RunColumns } from "./run.sql.js";

const row = (requestOffset: number, epoch: number, isLate = false): RunColumns => ({
  request_offset: `${requestOffset}`,
  epoch: `${epoch}`,
  is_late: isLate,
});
const told = (rows: readonly RunColumns[], epoch = 7n) =>
  endings(rows, epoch).map(({ type, payload, idempotencyKey }) => {
    const { requestOffset, settlement, incarnation } = JSON.parse(payload!.toString()) as {
      requestOffset?: number;
      incarnation?: number;
      settlement?: { failureKind: string };
    };
    return type === itx.woken.type ? [idempotencyKey, incarnation] : [requestOffset, settlement?.failureKind];
  });

describe("what is recorded of open runs", () => {
  it.each<[string, readonly RunColumns[], unknown[]]>([
    ["nothing of those of this owner", [row(2, 7), row(3, 7)], []],
    [
      "the end of those of former owners, after one incarnation",
      [row(2, 5), row(3, 6)],
      [
        ["itx/woken:7", 7],
        [2, "interrupted"],
        [3, "interrupted"],
      ],
    ],
    [
      "the end of those alone",
      [row(2, 6), row(3, 7)],
      [
        ["itx/woken:7", 7],
        [2, "interrupted"],
      ],
    ],
    ["a deadline without an incarnation", [row(2, 7, true), row(3, 7)], [[2, "deadline"]]],
    [
      "one end of a run that is both",
      [row(2, 6, true)],
      [
        ["itx/woken:7", 7],
        [2, "interrupted"],
      ],
    ],
    [
      "both kinds",
      [row(2, 7, true), row(3, 6)],
      [
        ["itx/woken:7", 7],
        [3, "interrupted"],
        [2, "deadline"],
      ],
    ],
  ])("%s", (_what, rows, records) => {
    expect(told(rows)).toEqual(records);
  });

  it("has a shape that the log takes", () => {
    for (const { type, payload } of endings([row(2, 5), row(3, 7, true)], 7n)) {
      const declaration = [itx.woken, itx.runSettled].find((each) => each.type === type)!;
      expect(declaration.payload.safeParse(JSON.parse(payload!.toString()))).toMatchObject({ success: true });
    }
  });
});
