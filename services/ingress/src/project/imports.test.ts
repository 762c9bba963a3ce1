import { fileURLToPath } from "node:url";
import { archiveHeaderLine } from "@iterate-platform/service/archive-header";
import { newId, uuidv7 } from "@iterate-platform/service/ids";
import { migrate } from "@iterate-platform/service/migrations";
import { useTestDatabase } from "@iterate-platform/testing";
import { codedError } from "iterate/lib";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ProjectImports, type ImportPorts, type ImportRequest } from "./imports.js";
import { Projects } from "./projects.js";

const database = useTestDatabase();
let pool: Pool;
beforeAll(async () => {
  await migrate({ url: database.url, dir: fileURLToPath(new URL("../../migrations", import.meta.url)) });
  pool = createPool({ url: database.url, applicationName: "test", max: 4 });
});
afterAll(() => pool.end());

let slugs = 0;
const archiveOf = (owner: string, slug: string) =>
  `${archiveHeaderLine({ of: "project", owner, slug, exportedAt: "2030-01-01T00:00:00.000Z" })}\nthe rest`;
async function* bytes(text: string): AsyncGenerator<Buffer> {
  for (const character of Buffer.from(text)) yield Buffer.from([character]);
}

function open(ports: Partial<ImportPorts> = {}) {
  const steps: string[] = [];
  const failures: unknown[] = [];
  const alive: (() => void)[] = [];
  const all: ImportPorts = {
    stage: async (_, data) => {
      let text = "";
      for await (const piece of data) text += Buffer.from(piece).toString();
      steps.push(`stage ${text.split("\n")[1]}`);
      return { contexts: 2, events: 7 };
    },
    open: async () => void steps.push("open"),
    remove: async () => void steps.push("remove"),
    append: async (_, path, events) => void steps.push(`append ${path} ${events.map(({ type }) => type.split("/")[2]).join()}`),
    ...ports,
  };
  const imports = new ProjectImports({
    pool,
    ports: all,
    newImportId: () => uuidv7().replaceAll("-", ""),
    every: (_, work) => {
      alive.push(work);
      return () => undefined;
    },
    onLeft: (_, error) => failures.push(error),
  });
  const projects = new Projects({ pool, ports: {} as never, newProjectId: () => newId("prj"), onPutOff: () => undefined });
  const [owner, slug] = [newId("prj"), `shop-${++slugs}`];
  const run = (fields: Partial<ImportRequest> = {}, text = archiveOf(owner, slug), signal = new AbortController().signal) =>
    imports.import({ slug: "", replace: false, principal: "admin", ...fields }, bytes(text), signal);
  return { imports, projects, steps, failures, alive, owner, slug, run };
}

const silent = (owner: string) => pool.query("update project set import_at = now() - interval '2 minutes' where id = $1", [owner]);

test("a project is there once everything of it is, under its id and slug", async () => {
  const { projects, steps, owner, slug, run } = open({
    append: async () => {
      await expect(projects.get(owner)).rejects.toMatchObject({ code: "NOT_FOUND" });
      steps.push("append");
    },
  });
  expect(await run()).toMatchObject({ project: { id: owner, slug }, contexts: 2, events: 7 });
  expect(steps).toEqual(["stage the rest", "open", "append", "remove"]);
  expect(await projects.get(slug)).toMatchObject({ id: owner });
  expect(await projects.sweep(10)).toBe(0);
});

test("a project that exists is refused, and replaced when told so", async () => {
  const { projects, steps, owner, slug, run } = open();
  await run();
  await expect(run()).rejects.toMatchObject({ code: "ALREADY_EXISTS" });
  steps.length = 0;
  await run({ replace: true });
  expect(steps).toEqual(["stage the rest", "open", "append / imported", "remove"]);
  expect(await projects.get(slug)).toMatchObject({ id: owner });
});

test("a slug that another project has is refused; another one may be given", async () => {
  const first = open();
  await first.run();
  const { owner, projects, run } = open();
  await expect(run({}, archiveOf(owner, first.slug))).rejects.toMatchObject({ code: "PROJECT_NAME_TAKEN" });
  await run({ slug: `${first.slug}-again` }, archiveOf(owner, first.slug));
  expect(await projects.get(owner)).toMatchObject({ slug: `${first.slug}-again` });
});

test.for([
  ["INVALID_INPUT", "PK and no archive"],
  ["INVALID_INPUT", ""],
  ["INVALID_INPUT", "x".repeat(5_000)],
  ["UPGRADE_REQUIRED", '{"kind":"iterate-archive","version":2}\n'],
] as const)("%s: what is no archive of this release makes no project", async ([code, text]) => {
  const { run, steps } = open();
  await expect(run({}, text)).rejects.toMatchObject({ code });
  expect(steps).toEqual([]);
});

test("a failed import leaves nothing, and can be made again", async () => {
  let fails = true;
  const { projects, steps, owner, slug, run } = open({
    stage: async () => {
      if (fails) throw codedError("INVALID_INPUT", "line 3 of the archive is damaged");
      return { contexts: 1, events: 1 };
    },
  });
  await expect(run()).rejects.toMatchObject({ code: "INVALID_INPUT", message: "line 3 of the archive is damaged" });
  expect(steps).toEqual(["remove"]);
  await expect(projects.get(slug)).rejects.toMatchObject({ code: "NOT_FOUND" });
  expect((await pool.query("select 1 from project where id = $1", [owner])).rowCount).toBe(0);
  fails = false;
  await run();
  await expect(run({ replace: true })).resolves.toBeDefined();
});

test("a failed replacement leaves the project as it was", async () => {
  let fails = false;
  const { projects, slug, owner, run } = open({
    stage: async () => {
      if (fails) throw codedError("UNAVAILABLE", "the log is away");
      return { contexts: 1, events: 1 };
    },
  });
  await run();
  fails = true;
  await expect(run({ replace: true })).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(await projects.get(slug)).toMatchObject({ id: owner });
});

test("one import of a project at a time", async () => {
  const reached = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  const { run } = open({
    stage: async () => {
      reached.resolve();
      await go.promise;
      return { contexts: 1, events: 1 };
    },
  });
  const first = run();
  await reached.promise;
  await expect(run()).rejects.toMatchObject({ code: "ALREADY_EXISTS" });
  await expect(run({ replace: true })).rejects.toMatchObject({ code: "ALREADY_EXISTS" });
  go.resolve();
  await first;
});

test("an import whose process died while staging is removed by another; one that is slow then finds itself given up", async () => {
  const reached = Promise.withResolvers<AbortSignal>();
  const go = Promise.withResolvers<void>();
  const { imports, projects, steps, alive, owner, slug, run } = open({
    stage: async (_, _data, signal) => {
      reached.resolve(signal);
      await go.promise;
      return { contexts: 1, events: 1 };
    },
  });
  const slow = run();
  const signal = await reached.promise;
  expect(await imports.sweep()).toBe(0);
  await silent(owner);
  expect(await imports.sweep()).toBe(1);
  expect(steps).toEqual(["remove"]);
  alive[0]!();
  await expect.poll(() => signal.aborted).toBe(true);
  go.resolve();
  await expect(slow).rejects.toMatchObject({ code: "CANCELLED" });
  await expect(projects.get(slug)).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test.for(["open", "append", "remove"] as const)("an import whose process died at %s is finished by another", async (step) => {
  let dies = true;
  const die = async (): Promise<void> => {
    if (dies) throw codedError("UNAVAILABLE", "the process died");
  };
  const { imports, projects, failures, owner, slug, run } = open({ [step]: die });
  await expect(run()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(failures).toHaveLength(1);
  dies = false;
  await silent(owner);
  expect(await imports.sweep()).toBe(1);
  expect(await projects.get(slug)).toMatchObject({ id: owner });
  expect(await imports.sweep()).toBe(0);
});

test.for(["open", "remove"] as const)("a step that takes long is not taken over by another: %s", async (step) => {
  const reached = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  const { imports, alive, owner, run } = open({
    [step]: async () => {
      reached.resolve();
      await go.promise;
    },
  });
  const slow = run();
  await reached.promise;
  await silent(owner);
  alive.at(-1)!();
  const isAlive = async () =>
    (await pool.query("select from project where id = $1 and import_at > now() - interval '1 minute'", [owner])).rowCount;
  await expect.poll(isAlive).toBe(1);
  expect(await imports.sweep()).toBe(0);
  go.resolve();
  await slow;
});
