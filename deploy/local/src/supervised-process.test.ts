import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@iterate-platform/testing";
import { freePort } from "@iterate-platform/testing/free-port";
import { afterEach, beforeEach, expect, test } from "vitest";
import { RestartBudget } from "./restart-budget.js";
import { SupervisedProcess } from "./supervised-process.js";

let folder: string;
let port: number;
let supervised: SupervisedProcess;
const lines: string[] = [];
const failures: string[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "supervised-"));
  port = await freePort();
  lines.length = 0;
  failures.length = 0;
});
afterEach(async () => {
  await supervised.stop();
  rmSync(folder, { recursive: true });
});

function supervise(program: string): SupervisedProcess {
  writeFileSync(join(folder, "program.mjs"), program);
  supervised = new SupervisedProcess({
    name: "subject",
    command: process.execPath,
    args: ["program.mjs"],
    cwd: folder,
    env: {},
    readyUrl: `http://127.0.0.1:${port}/readyz`,
    onLine: (line) => lines.push(line),
    onFailed: (last) => failures.push(last),
    budget: new RestartBudget(1),
  });
  supervised.start();
  return supervised;
}

const serves = (): string =>
  `import { createServer } from "node:http"; createServer((_, r) => r.end("ok")).listen(${port}, "127.0.0.1");`;

test("one that never comes up is started ten times more, then given up with its last lines", async () => {
  const subject = supervise(`console.error("cannot start: no such table"); process.exit(1);`);
  await expect(subject.ready(20_000)).rejects.toThrow(/subject is failed.*cannot start: no such table/s);
  expect(failures).toEqual(["cannot start: no such table"]);
  expect(subject.starts).toBe(11);
});

test("a program that does not exist is given up like one that dies", async () => {
  supervised = new SupervisedProcess({
    name: "subject",
    command: join(folder, "absent"),
    args: [],
    cwd: folder,
    env: {},
    readyUrl: "http://127.0.0.1:1/",
    onLine: (line) => lines.push(line),
    onFailed: (last) => failures.push(last),
    budget: new RestartBudget(1),
  });
  supervised.start();
  await eventually(() => failures.length === 1, { timeoutMs: 20_000 });
});

test("it is ready when it says so, and not before", async () => {
  const subject = supervise(
    `import { createServer } from "node:http"; let asked = 0;
     createServer((_, r) => { r.statusCode = ++asked < 3 ? 503 : 200; r.end(); }).listen(${port}, "127.0.0.1");`,
  );
  await subject.ready(20_000);
  expect(subject.state).toBe("ready");
  await expect(fetch(`http://127.0.0.1:${port}`).then((answer) => answer.status)).resolves.toBe(200);
});

test("a killed one is ready again as another process", async () => {
  const subject = supervise(serves());
  await subject.ready(20_000);
  const { pid } = subject;
  await subject.kill();
  await eventually(() => subject.starts === 2);
  await subject.ready(20_000);
  expect(subject.pid).not.toBe(pid);
});

test("a stopped one stays down", async () => {
  const subject = supervise(serves());
  await subject.ready(20_000);
  await subject.stop();
  expect(subject.state).toBe("stopped");
  expect(subject.pid).toBeUndefined();
  expect(subject.starts).toBe(1);
});
