import { repo } from "iterate/events";
import { expect, test } from "vitest";
import { unpublishedBecause } from "./unpublished.js";

const commit = (offset: number, branch = "main") => ({ offset, type: repo.commitCompleted.type, payload: { branch } });
const failed = (offset: number, requestOffset: number) => ({
  offset,
  type: repo.publicationSettled.type,
  payload: { requestOffset, status: "failed" },
});

test.for([
  ["nothing", [], "nothing was pushed to main yet"],
  ["a push to another branch", [commit(2, "topic")], "nothing was pushed to main yet"],
  ["a push", [commit(2)], "a push is being built"],
  ["a push that failed", [commit(2), failed(3, 2)], "no push could be built and loaded"],
  ["a push that failed and a newer one", [commit(2), failed(3, 2), commit(4)], "a push is being built"],
  ["two that failed", [commit(2), commit(3), failed(4, 2), failed(5, 3)], "no push could be built and loaded"],
] as const)("after %s the page says why it is not there", ([, events, words]) => {
  expect(unpublishedBecause(events)).toContain(words);
});
