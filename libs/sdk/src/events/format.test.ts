import { expect, it } from "vitest";
import { z } from "zod";
import { eventType } from "./event-type.js";
import { newestFormat } from "./format.js";

/** `{n}` became `{count}`, then `{count, unit}`. */
const counted = eventType("test/counted", z.object({ count: z.number(), unit: z.string() }), {
  description: "",
  writer: "anyone",
  earlier: [
    { payload: z.object({ n: z.number() }), upcast: (payload) => ({ count: (payload as { n: number }).n }) },
    { payload: z.object({ count: z.number() }), upcast: (payload) => ({ ...(payload as object), unit: "pieces" }) },
  ],
});

it.each([
  [1, { n: 4 }],
  [2, { count: 4 }],
  [3, { count: 4, unit: "pieces" }],
])("lifts a payload of format %d to the newest", (formatVersion, payload) => {
  const before = structuredClone(payload);
  expect(newestFormat(counted, { formatVersion, payload })).toEqual({ count: 4, unit: "pieces" });
  expect(payload).toEqual(before);
});

it("refuses a newer format, naming both and what to do", () => {
  expect(() => newestFormat(counted, { offset: 9, formatVersion: 4, payload: {} })).toThrow(
    expect.objectContaining({
      code: "UPGRADE_REQUIRED",
      retryable: true,
      message: expect.stringContaining("upgrade") as string,
      data: { type: counted.type, formatVersion: 4, known: 3, offset: 9 },
    }),
  );
});
