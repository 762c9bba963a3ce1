import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Shell } from "./shell.js";

let folder: string;
let shell: Shell;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "docs-shell-"));
  shell = new Shell(folder, { PATH: process.env["PATH"] });
});
afterEach(() => rmSync(folder, { recursive: true }));

it("goes on where the last block left off, with its exports and its files", async () => {
  await shell.run("mkdir inner\ncd inner\nexport NAME='a b'\nnot_exported=1");
  await shell.save("said.txt", "hello\n");
  const { code, output } = await shell.run('cat said.txt\necho "$NAME ${not_exported:-gone}"');
  expect([code, output]).toEqual([0, "hello\na b gone\n"]);
});

it.each([
  ["a command that fails", "false\necho not reached", 1],
  ["a variable that is not set", 'echo "$NOBODY_SETS_THIS"', 2],
])("ends with %s", async (_name, script, code) => {
  const ran = await shell.run(script);
  expect(ran.code).toBe(code);
  expect(ran.output).not.toContain("not reached");
});

it("ends a block that takes too long, with everything it started", async () => {
  const { code, output } = await shell.run("echo begun\nsleep 60 & sleep 60", 300);
  expect([code, output]).toEqual([null, "begun\n"]);
});

it("does not wait for what a block leaves running", async () => {
  expect((await shell.run("sleep 60 &\necho done")).output).toBe("done\n");
});
