/**
 * The documentation's commands, run as its reader runs them: page by page, block by block, against one stack that runs nothing else. A
 * page is given what its reader is told to set: the deployment's addresses, the admin token, and the tools of this clone.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { startStack, type Stack } from "@iterate-platform/local";
import { afterAll, beforeAll, expect, it } from "vitest";
import { stepsOf, type Step } from "./page.js";
import { pages, root } from "./pages.js";
import { blockMs, Shell } from "./shell.js";

let stack: Stack;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "iterate-docs-"));
  stack = await startStack({ state: "temporary", portBase: "auto" });
}, 120_000);

afterAll(async () => {
  // It is not there when it did not start.
  await (stack as Stack | undefined)?.stop();
  rmSync(folder, { recursive: true, force: true });
}, 60_000);

function environment(): NodeJS.ProcessEnv {
  const tools = [join(root, "tools"), join(root, "node_modules/.bin"), dirname(process.execPath)];
  return {
    PATH: [...tools, process.env["PATH"]].join(delimiter),
    HOME: folder,
    LANG: "C.UTF-8",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_TERMINAL_PROMPT: "0",
    GIT_AUTHOR_NAME: "Ada",
    GIT_AUTHOR_EMAIL: "ada@example.com",
    GIT_COMMITTER_NAME: "Ada",
    GIT_COMMITTER_EMAIL: "ada@example.com",
    ITERATE_CLONE: root,
    ITERATE_BASE_URL: `http://localhost:${stack.ports.of("public-http")}`,
    ITERATE_GRPC: `localhost:${stack.ports.of("public-grpc")}`,
    ITERATE_PAGES: `${stack.url("projects")}/projects`,
    ITERATE_ADMIN_TOKEN: stack.adminToken,
  };
}

const runnable = pages
  .map((page) => ({ page, steps: stepsOf(readFileSync(join(root, page), "utf8")) }))
  .filter(({ steps }) => steps.some(({ kind }) => kind === "run"));

it.for(runnable)("$page does what it says", { timeout: 120_000 }, async ({ page, steps }) => {
  const own = mkdtempSync(join(folder, "page-"));
  const shell = new Shell(own, environment());
  for (const step of steps) await follow(shell, page, step);
});

it("the first guide is among what is run", () => {
  expect(runnable.map(({ page }) => page)).toContain("docs/guides/first-project.md");
});

async function follow(shell: Shell, page: string, step: Step): Promise<void> {
  if (step.kind === "file") return await shell.save(step.path, step.content);
  const { code, output } = await shell.run(step.script);
  const story = `${page}:${step.line}\n${step.script}--- printed\n${output}---`;
  expect(code, code === null ? `not done within ${blockMs / 1000} s: ${story}` : story).toBe(0);
  for (const text of step.expected) expect(output, `${page}:${step.line} does not print ${JSON.stringify(text)}`).toContain(text);
}
