import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { prepareSecrets } from "./prepare.js";
import { holdState, removeState, StateHeldError, statePaths, type StatePaths } from "./state.js";

let folder: string;
let state: StatePaths;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "state-"));
  state = statePaths(join(folder, ".iterate"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("secrets are made once, kept, and readable by their owner alone", async () => {
  const token = await prepareSecrets(state);
  expect(token).toMatch(/^[\w-]{43}$/);
  const files = [
    state.adminTokenFile,
    state.secretKeysFile,
    state.trustedKeysFile,
    state.keyFile("context"),
    state.keyFile("ingress"),
  ];
  const before = files.map((path) => readFileSync(path, "utf8"));
  for (const path of files) expect(statSync(path).mode & 0o077, path).toBe(0);
  expect(await prepareSecrets(state)).toBe(token);
  expect(files.map((path) => readFileSync(path, "utf8"))).toEqual(before);
});

test("isolates and build workers have no key", async () => {
  await prepareSecrets(state);
  expect(existsSync(state.keyFile("runner-isolate"))).toBe(false);
  expect(existsSync(state.keyFile("build-worker"))).toBe(false);
});

test("a second start on the same state is told who holds it, until it is given back", () => {
  const giveBack = holdState(state, 7400);
  expect(() => holdState(state, 7500)).toThrow(
    new RegExp(`already runs on ${state.folder}: process ${process.pid}, ports from 7400`),
  );
  expect(() => holdState(state, 7500)).toThrow(StateHeldError);
  giveBack();
  holdState(state, 7500)();
});

test("a holder that died does not hold, even when its process id is in use again", () => {
  const { pid } = spawnSync("true");
  writeFileSync(state.lockFile, JSON.stringify({ pid, startedAt: "1", portBase: 7400 }));
  holdState(state, 7400)();
  writeFileSync(state.lockFile, JSON.stringify({ pid: process.pid, startedAt: "another process's", portBase: 7400 }));
  holdState(state, 7400)();
  writeFileSync(state.lockFile, "cut off");
  holdState(state, 7400)();
});

test("removing a state removes it all", () => {
  removeState(state.folder);
  expect(existsSync(state.folder)).toBe(false);
});
