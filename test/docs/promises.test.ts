/** Every promise of the platform is a test that has its number, or says why it is none. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { root } from "./pages.js";

const page = readFileSync(join(root, "docs/reference/deviations.md"), "utf8");
const rows = [...page.matchAll(/^\| *(\d+) *\| *(.*?) *\| *(.*?) *\| *(.*?) *\|$/gm)].map(([, number, promise, state, note]) => ({
  number: Number(number),
  promise: promise!,
  state: state!,
  note: note!,
}));

const tested = new Set(
  globSync("{libs,services,test,docs/examples}/**/*.test.ts", {
    cwd: root,
    exclude: (path) => path.includes("node_modules"),
  }).flatMap((path) =>
    [...readFileSync(join(root, path), "utf8").matchAll(/\[iterate-(\d+)\]/g)].map(([, number]) => Number(number)),
  ),
);

it("lists every promise once, in order", () => {
  expect(rows.map(({ number }) => number)).toEqual(Array.from({ length: 100 }, (_, at) => at + 1));
  for (const { promise } of rows) expect(promise).not.toBe("");
});

it("has a test for each promise it calls kept, and for each it keeps otherwise", () => {
  const claimed = rows.filter(({ state }) => state === "kept" || state === "deviates");
  expect(claimed.filter(({ number }) => !tested.has(number)).map(({ number }) => number)).toEqual([]);
});

it("says of every other that it is not there yet, and why; and of none that has a test", () => {
  for (const { number, state, note } of rows) {
    expect(["kept", "deviates", "not yet"], `promise ${number}`).toContain(state);
    if (state !== "kept") expect(note, `promise ${number}`).not.toBe("");
    if (state === "not yet") expect(tested.has(number), `promise ${number} has a test`).toBe(false);
  }
});

it("knows every number that a test has", () => {
  const known = new Set(rows.map(({ number }) => number));
  expect([...tested].filter((number) => !known.has(number))).toEqual([]);
});
