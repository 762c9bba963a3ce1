import { expect, it } from "vitest";
import { nearestName } from "./nearest.js";

it.each([
  ["webhook-recieved", "webhook-received"],
  ["webhook-receiv", "webhook-received"],
  ["webhook-rec", null],
  ["webhook-received", "webhook-received"],
  ["pausd", "paused"],
  ["", null],
])("takes %j for a slip of %j", (typed, meant) => {
  expect(nearestName(typed, ["webhook-received", "resumed", "paused"])).toBe(meant);
});
