import { expect, it } from "vitest";
import { receiptOf } from "./receipt.js";

const config = { owner: "prj_1", path: "/repos/config" };
const oid = "1a2b3c4d5e6f".padEnd(40, "0");
const moved = (branch: string) => ({ name: `refs/heads/${branch}`, old: null, new: oid });

it("says of main that it is built, and where to see how that ends", () => {
  expect(receiptOf(config, [moved("main")])).toEqual([
    "main is now 1a2b3c4d5e6f; it is built now, and published when it builds. See how that ends:",
    "  iterate events tail --project prj_1 --after 0",
  ]);
});

it("says of another branch that it is not built", () => {
  expect(receiptOf(config, [moved("topic"), { name: "refs/heads/old", old: oid, new: null }])).toEqual([
    "topic is now 1a2b3c4d5e6f; it is stored and not built: only main is.",
    "old is removed.",
  ]);
});

it("promises no build of another repository", () => {
  expect(receiptOf({ ...config, path: "/repos/notes" }, [moved("main")])).toEqual(["main is now 1a2b3c4d5e6f."]);
});

it.each([
  [10, 10, "b9 is now"],
  [11, 10, "and 2 lines more"],
])("of %i branches it prints %i lines", (branches, lines, last) => {
  const receipt = receiptOf(
    config,
    Array.from({ length: branches }, (_, at) => moved(`b${at}`)),
  );
  expect([receipt.length, receipt.at(-1)]).toEqual([lines, expect.stringContaining(last)]);
});
