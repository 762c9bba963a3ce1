import { newId, partitionOf } from "@iterate-platform/service/ids";
import type { SubscriptionFloor } from "@iterate-platform/proto/iterate/context/v1/feed";
import { expect, test } from "vitest";
import type { FloorStore, ReportedFloor } from "../retention/contract.js";
import { retentionLimits } from "../retention/limits.js";
import { feedHandlers, feedRules } from "./feed.js";

const owner = newId("prj");
const partition = partitionOf(owner, "/a");
const floor = (fields: Partial<SubscriptionFloor> = {}): SubscriptionFloor => ({
  context: { owner, path: "/a" },
  name: "triage",
  configuredAtOffset: 3n,
  resumedAtOffset: 0n,
  floorOffset: 7n,
  ...fields,
});

function report(floors: SubscriptionFloor[], of = partition) {
  const reported: ReportedFloor[] = [];
  const store: Pick<FloorStore, "reportFloors"> = { reportFloors: async (all) => void reported.push(...all) };
  const { reportFloors } = feedHandlers({ storeOf: () => undefined as never, floorsOf: () => store as FloorStore });
  return { reported, answer: (reportFloors as (request: unknown) => Promise<unknown>)({ partition: of, floors }) };
}

test("floors are taken in from the runner alone", async () => {
  expect(feedRules.reportFloors).toEqual({ services: ["runner"], execution: "refused", person: "refused" });
  const { reported, answer } = report([floor()]);
  await answer;
  expect(reported).toEqual([{ owner, path: "/a", name: "triage", configuredAt: 3, resumedAt: 0, floor: 7 }]);
});

test.for([retentionLimits.floors - 1, retentionLimits.floors])("%i floors are one report", async (count) => {
  const { reported, answer } = report(Array.from({ length: count }, () => floor()));
  await answer;
  expect(reported).toHaveLength(count);
});

test.for<[string, SubscriptionFloor[], number]>([
  ["one more than the limit", Array.from({ length: retentionLimits.floors + 1 }, () => floor()), partition],
  ["a partition that is none", [], 256],
  ["a context of another partition", [floor()], (partition + 1) % 256],
  ["a name that is none", [floor({ name: "a\u0000" })], partition],
  ["an offset below zero", [floor({ floorOffset: -1n })], partition],
  ["an offset beyond 2^53", [floor({ floorOffset: 2n ** 53n })], partition],
])("%s is refused whole", async ([, floors, of]) => {
  const { reported, answer } = report(floors, of);
  await expect(answer).rejects.toMatchObject({ code: "INVALID_INPUT" });
  expect(reported).toEqual([]);
});
