import { fileURLToPath } from "node:url";
import { codedError } from "iterate/lib";
import { newId } from "@iterate-platform/service/ids";
import { migrate } from "@iterate-platform/service/migrations";
import { useTestDatabase } from "@iterate-platform/testing";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FactInput } from "./announce.js";
import { Projects } from "./projects.js";

const database = useTestDatabase();
let pool: Pool;

beforeAll(async () => {
  pool = createPool({ url: database.url, applicationName: "test", max: 4 });
  await migrate({ url: database.url, dir: fileURLToPath(new URL("../../migrations", import.meta.url)) });
});

afterAll(async () => {
  await pool.end();
});

function open(append: (owner: string, path: string, events: readonly FactInput[]) => Promise<void> = async () => undefined) {
  const landed: string[] = [];
  const failures: unknown[] = [];
  const projects = new Projects({
    pool,
    newProjectId: () => newId("prj"),
    onPutOff: (_owed, error) => failures.push(error),
    ports: {
      append: async (owner, path, events) => {
        await append(owner, path, events);
        for (const event of events) landed.push(`${path} ${event.type}`);
      },
      commitTemplate: async () => undefined,
    },
  });
  return { projects, landed, failures };
}

const request = (slug: string) => ({ slug, template: null, principal: "admin" }) as const;

test("a project is made once, found by id and slug, and announced", async () => {
  const { projects, landed } = open();
  const project = await projects.create(request("first"));
  expect(await projects.get("first")).toEqual(project);
  expect(await projects.get(project.id)).toEqual(project);
  await expect(projects.create(request("first"))).rejects.toMatchObject({ code: "PROJECT_NAME_TAKEN" });
  expect(landed).toHaveLength(3);
  expect(await projects.sweep(10)).toBe(0);
});

test("ten racers for one slug: one wins, nine are told", async () => {
  const { projects } = open();
  const outcomes = await Promise.allSettled(Array.from({ length: 10 }, () => projects.create(request("contested"))));
  expect(outcomes.filter((outcome) => outcome.status === "fulfilled")).toHaveLength(1);
});

test("a project whose facts did not land is answered, put off, and announced by the sweep", async () => {
  let away = true;
  const { projects, landed, failures } = open(async () => {
    if (away) throw codedError("UNAVAILABLE", "context is away");
  });
  const project = await projects.create(request("later"));
  expect(failures).toHaveLength(1);
  expect(await projects.sweep(10), "it is put off, not due at once").toBe(0);
  away = false;
  await pool.query("update project set due_at = now() where id = $1", [project.id]);
  expect(await projects.sweep(10)).toBe(1);
  expect(landed).toHaveLength(3);
});

test("two pods never announce one project at the same time", async () => {
  const { projects } = open(async () => Promise.reject(codedError("UNAVAILABLE", "away")));
  const made = await Promise.all(["p-a", "p-b", "p-c"].map((slug) => projects.create(request(slug))));
  await pool.query("update project set due_at = now() where id = any($1)", [made.map((project) => project.id)]);
  const [one, two] = [open(), open()];
  const swept = await Promise.all([one.projects.sweep(10), two.projects.sweep(10)]);
  expect(swept[0] + swept[1]).toBe(3);
});

test("projects are listed by slug in pages, without gap or repetition", async () => {
  const { projects } = open();
  for (const slug of ["z-1", "z-2", "z-3"]) await projects.create(request(slug));
  const first = await projects.list("z", 2);
  expect(first.projects.map((project) => project.slug)).toEqual(["z-1", "z-2"]);
  const second = await projects.list(first.next ?? "", 2);
  expect(second).toMatchObject({ projects: [{ slug: "z-3" }], next: null });
});

test.for([0, 501, 1.5])("a page of %d projects is refused", async (size) => {
  await expect(open().projects.list("", size)).rejects.toMatchObject({ code: "INVALID_INPUT" });
});

test("pages of 1, 499 and 500 projects are answered", async () => {
  for (const size of [1, 499, 500]) await expect(open().projects.list("", size)).resolves.toBeDefined();
});
