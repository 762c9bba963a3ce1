/** The import rules find what they are there to find: one planted violation for each, in a small tree of its own. */
import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);
let tree: string;

const base: Record<string, string> = {
  "services/context/src/log/append.ts": "export type Append = { offset: number };\nexport const append = 1;\n",
  "services/context/src/log/contract.ts": "export interface Log { offset: number }\n",
  "services/context/src/api/log.ts": "export const api = 1;\n",
  "services/context/src/main.ts": "export const main = 1;\n",
  "services/ingress/src/route.ts": "export const route = 1;\n",
  "libs/service/src/log.ts": "export const log = 1;\n",
  "libs/testing/src/nats.ts": "export const nats = 1;\n",
  "libs/sdk/src/lib/index.ts": "export const lib = 1;\n",
};

beforeAll(async () => {
  tree = await mkdtemp(join(tmpdir(), "floors-"));
  await copyFile(join(root, "tsconfig.base.json"), join(tree, "tsconfig.base.json"));
  await writeFile(join(tree, "package.json"), '{ "name": "tree", "type": "module" }');
  await symlink(join(root, "node_modules"), join(tree, "node_modules"));
  for (const [path, text] of Object.entries(base)) await plant(path, text);
});

afterAll(async () => {
  await rm(tree, { recursive: true, force: true });
});

async function plant(path: string, text: string): Promise<void> {
  await mkdir(dirname(join(tree, path)), { recursive: true });
  await writeFile(join(tree, path), text);
}

async function violations(): Promise<string[]> {
  const depcruise = await realpath(join(root, "node_modules/.bin/depcruise"));
  const folders = ["services", "libs", "apps", "docs"].filter((folder) => planted.has(folder));
  const { stdout } = await run(
    process.execPath,
    [depcruise, "--config", join(root, ".dependency-cruiser.mjs"), "--output-type", "json", ...folders],
    { cwd: tree, maxBuffer: 32 << 20 },
  ).catch((failure: { stdout: string }) => failure);
  const report = JSON.parse(stdout) as { summary: { violations: { rule: { name: string } }[] } };
  return report.summary.violations.map((violation) => violation.rule.name);
}

const planted = new Set(["services", "libs"]);

test("a tree that keeps the rules has no violation", async () => {
  expect(await violations()).toEqual([]);
});

test.for<[string, string, string, string]>([
  [
    "a type import",
    "services-stay-apart",
    "services/ingress/src/plant.ts",
    'import type { Append } from "../../context/src/log/append.js";\nexport type A = Append;\n',
  ],
  ["a re-export", "services-stay-apart", "services/ingress/src/plant.ts", 'export * from "../../context/src/log/append.js";\n'],
  [
    "a dynamic import",
    "services-stay-apart",
    "services/ingress/src/plant.ts",
    'export const late = () => import("../../context/src/log/append.js");\n',
  ],
  [
    "a new package",
    "services-are-not-libraries",
    "apps/board/src/plant.ts",
    'import { append } from "../../../services/context/src/log/append.js";\nexport const a = append;\n',
  ],
  [
    "an SDK module that reaches a library",
    "sdk-stands-alone",
    "libs/sdk/src/lib/plant.ts",
    'export * from "../../../service/src/log.js";\n',
  ],
  [
    "an SDK module that needs Node",
    "sdk-without-node",
    "libs/sdk/src/lib/plant.ts",
    'import { readFileSync } from "node:fs";\nexport const read = readFileSync;\n',
  ],
  [
    "a library that knows a service",
    "libraries-below-services",
    "libs/service/src/plant.ts",
    'export * from "../../../services/context/src/log/append.js";\n',
  ],
  [
    "an example that reaches a library",
    "examples-use-the-sdk-alone",
    "docs/examples/a/plant.ts",
    'export * from "../../../libs/service/src/log.js";\n',
  ],
  [
    "a contract above its floor",
    "contracts-at-the-bottom",
    "services/context/src/core/contract.ts",
    'export * from "../log/append.js";\n',
  ],
  ["a module that imports main", "main-on-top", "services/context/src/log/plant.ts", 'export * from "../main.js";\n'],
  [
    "a concern that knows its edge",
    "edges-above-concerns",
    "services/context/src/log/plant.ts",
    'export * from "../api/log.js";\n',
  ],
  [
    "a service that ships test support",
    "tests-stay-out",
    "services/context/src/log/plant.ts",
    'export * from "../../../../libs/testing/src/nats.js";\n',
  ],
  [
    "a package nobody declared",
    "declared-packages",
    "services/context/src/log/plant.ts",
    'import fc from "fast-check";\nexport const f = fc;\n',
  ],
  ["an import of nothing", "resolvable", "services/context/src/log/plant.ts", 'export * from "./absent.js";\n'],
  ["a circle", "no-circles", "services/context/src/log/plant.ts", 'import { b } from "./plant-b.js";\nexport const a = () => b;\n'],
])("%s breaks the rule %s", async ([, rule, path, text]) => {
  planted.add(path.split("/")[0] ?? "");
  await plant(path, text);
  const other = join(dirname(path), "plant-b.ts");
  if (rule === "no-circles") await plant(other, 'import { a } from "./plant.js";\nexport const b = () => a;\n');
  try {
    expect(await violations()).toContain(rule);
  } finally {
    await rm(join(tree, path));
    await rm(join(tree, other), { force: true });
  }
});
