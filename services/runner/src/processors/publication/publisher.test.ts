import { expect, test } from "vitest";
import { rowsWithNewCode } from "./publisher.js";

const entry = (file: string, identity: string) => ({ file, module: file, identity, classes: [] });
const declared = (name: string, file: string) => ({ name, file, className: "C", context: name === "root" ? "/" : "hello" });
const bundle = {
  processors: [declared("counter", "counter.ts"), declared("regulars", "regulars.ts"), declared("root", "new.ts")],
  entries: [entry("counter.ts", "c1"), entry("regulars.ts", "r2"), entry("new.ts", "n1"), entry("worker.ts", "w1")],
};
const published = (generation: bigint) => ({ generation, modules: [entry("counter.ts", "c1"), entry("regulars.ts", "r1")] });
const names = (rows: readonly { context: string; name: string }[]) => rows.map(({ context, name }) => `${context} ${name}`);

test("rows have new code when their module is another than the published one, or is new", () => {
  expect(names(rowsWithNewCode({ offset: 9, commitOid: "c" }, bundle, published(4n)))).toEqual(["/hello regulars", "/ root"]);
});

test.for([null, published(9n)])(
  "all rows have new code when nothing was published, or an attempt of this publication did",
  (before) => {
    expect(names(rowsWithNewCode({ offset: 9, commitOid: "c" }, bundle, before))).toEqual([
      "/hello counter",
      "/hello regulars",
      "/ root",
    ]);
  },
);
