import { eventCatalog } from "iterate/events";
import { codedError } from "iterate/lib";
import { expect, test } from "vitest";
import {
  announce,
  birthFacts,
  maxPutOffMs,
  publicationSubscription,
  putOffMs,
  type AnnouncePorts,
  type FactInput,
} from "./announce.js";
import type { OwedProject } from "./contract.js";

const owed: OwedProject = { id: "prj_a", slug: "a", template: "triage", attempts: 1 };

function recorder(fail: (step: string) => Error | null = () => null) {
  const steps: string[] = [];
  const step = (name: string) => {
    const failure = fail(name);
    if (failure !== null) throw failure;
    steps.push(name);
  };
  const ports: AnnouncePorts = {
    append: async (_owner, path, events) => step(`append ${path} ${events.map((event) => event.idempotencyKey).join(" ")}`),
    commitTemplate: async (_owner, template) => step(`commit ${template}`),
  };
  return { ports, steps };
}

test("a project's facts, its publication and its template are announced in this order", async () => {
  const { ports, steps } = recorder();
  await announce(owed, ports);
  expect(steps).toEqual([
    "append / project/create-requested:prj_a project/created:prj_a",
    "append /repos/config project/publication:prj_a",
    "commit triage",
  ]);
});

test("without a template nothing is committed", async () => {
  const { ports, steps } = recorder();
  await announce({ ...owed, template: null }, ports);
  expect(steps.filter((step) => step.startsWith("commit"))).toEqual([]);
});

test("a repo that has a commit already counts as announced", async () => {
  const { ports } = recorder((step) => (step.startsWith("commit") ? codedError("NOT_FAST_FORWARD", "main is at 1234") : null));
  await expect(announce(owed, ports)).resolves.toBeUndefined();
});

test("any other failure leaves the project owed", async () => {
  const { ports } = recorder((step) => (step.startsWith("commit") ? codedError("UNAVAILABLE", "the bundler is away") : null));
  await expect(announce(owed, ports)).rejects.toMatchObject({ code: "UNAVAILABLE" });
});

test("every fact is valid by the catalog", () => {
  const facts: FactInput[] = [...birthFacts(owed), ...birthFacts({ ...owed, template: null }), publicationSubscription(owed)];
  for (const fact of facts) expect(eventCatalog.get(fact.type)?.payload.safeParse(fact.payload).error).toBeUndefined();
});

test.for([
  [1, 1000],
  [2, 2000],
  [9, 256_000],
  [10, maxPutOffMs],
  [5000, maxPutOffMs],
] as const)("after attempt %i the next is put off by %i ms", ([attempts, ms]) => {
  expect(putOffMs(attempts)).toBe(ms);
});

test("publication hears of commits, and of what it settled itself: without that a second push is taken for one cut short", () => {
  expect(publicationSubscription(owed).payload).toMatchObject({
    consumes: ["events.iterate.com/repo/commit-completed", "events.iterate.com/repo/publication-settled"],
  });
});
