/** The check of the vocabulary finds what it is there to find: one planted source for each rule, in a small tree of its own. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const prefix = "events.iterate.com/";

/** File, its text, and what is said of it; null when it is sound. */
const planted: readonly (readonly [string, string, RegExp | null])[] = [
  ["whole-type.ts", `export const a = (type: string) => type === "${prefix}itx/paused";`, null],
  ["family.ts", `export const a = (type: string) => type.startsWith("${prefix}itx/subscription-");`, null],
  ["prose.ts", `export const a = "a type below ${prefix} is the platform's";`, null],
  ["foreign.ts", `export const a = "events.example.com/itx/";`, null],
  ["unknown-type.ts", `export const a = "${prefix}itx/invented";`, /itx\/invented.*neither a type/],
  ["namespace.ts", `export const a = (type: string) => type.startsWith("${prefix}itx/");`, /com\/itx\/".*neither a type/],
  ["half-word.ts", `export const a = (type: string) => type.startsWith("${prefix}itx/loop-");`, /itx\/loop-".*neither a type/],
  ["everything.ts", `export const a = (type: string) => type.startsWith("${prefix}");`, /prefix as a whole/],
  ["tests.ts", `export const a = "${prefix}test/pinged";`, /types of tests/],
  ["template.ts", "export const a = (platformPrefix: string) => `${platformPrefix}itx/`;", /neither a type/],
  ["filled.ts", `export const a = (event: string) => \`${prefix}itx/\${event}\`;`, /itx\/….*neither a type/],
  ["looked-up.ts", "export const a = (platformPrefix: string, name: string) => new Set([platformPrefix + name]);", null],
  [
    "made-up.ts",
    "export const a = (platformPrefix: string, name: string, type: string) => type.startsWith(platformPrefix + name);",
    /neither a type/,
  ],
  ["sum.ts", `export const a = (platformPrefix: string) => platformPrefix + "test/";`, /types of tests/],
  ["pattern.ts", `export const a = /^events\\.iterate\\.com\\/itx\\//;`, /neither a type/],
  [
    "declared.ts",
    `export const a = (eventType: (name: string) => void) => eventType("itx/moved");`,
    /outside of the contract files/,
  ],
  ["apart.test.ts", `export const a = "${prefix}test/pinged";`, null],
];

let tree: string;
let said: string[];
beforeAll(() => {
  tree = mkdtempSync(join(tmpdir(), "vocabulary-"));
  for (const [file, text] of planted) {
    const path = join(tree, "services/context/src", file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, `${text}\n`);
  }
  said = check(tree);
});
afterAll(() => rmSync(tree, { recursive: true, force: true }));

function check(path: string): string[] {
  const { stderr } = spawnSync(process.execPath, ["--conditions=iterate-source", "--import", "tsx", "tools/vocabulary.mjs", path], {
    cwd: root,
    encoding: "utf8",
    timeout: 60_000,
  });
  return stderr.split("\n").filter((line) => line !== "");
}

test.each(planted)("%s", (file, _text, expected) => {
  const about = said.filter((line) => line.includes(`/${file}:`));
  if (expected === null) expect(about).toEqual([]);
  else expect(about).toEqual([expect.stringMatching(expected)]);
});

test("the product keeps the vocabulary", () => {
  expect(check(root)).toEqual([]);
});
