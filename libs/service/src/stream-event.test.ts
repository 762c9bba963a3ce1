import { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import { collectCatalog, eventType } from "iterate/events";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { toStreamEvent } from "./stream-event.js";

const counted = eventType("test/counted", z.object({ count: z.number() }), {
  description: "",
  writer: "anyone",
  earlier: [{ payload: z.object({ n: z.number() }), upcast: (payload) => ({ count: (payload as { n: number }).n }) }],
});
const catalog = collectCatalog({ test: { counted } });
const stored = (formatVersion: number, payload: unknown, type = counted.type) =>
  toStreamEvent(
    Event.fromPartial({ offset: 7n, type, formatVersion, payload: Buffer.from(JSON.stringify(payload)) }),
    "/a",
    catalog,
  );

describe("an event as clients see it", () => {
  it.each([
    ["of an earlier format", stored(1, { n: 3 }), { count: 3 }],
    ["of the newest format", stored(2, { count: 3 }), { count: 3 }],
    ["of a type the platform does not know", stored(1, { n: 3 }, "example.com/counted"), { n: 3 }],
  ])("has its payload in the newest format: one %s", (_what, event, payload) => {
    expect(event).toMatchObject({ offset: 7, path: "/a", payload });
  });

  it("is refused with what to do when its format is newer than this release", () => {
    expect(() => stored(3, {})).toThrow(
      expect.objectContaining({
        code: "UPGRADE_REQUIRED",
        retryable: true,
        data: expect.objectContaining({ offset: 7 }) as object,
      }),
    );
  });

  it("says which schedule appended it, and who had set that", () => {
    const schedule = {
      key: "k",
      scheduledAtOffset: 3n,
      at: "2030-01-01T00:00:00.000Z",
      definedBy: { origin: "/a", principal: "usr_1" },
    };
    const event = Event.fromPartial({ offset: 7n, type: "example.com/due", source: { origin: "/a", schedule } });
    expect(toStreamEvent(event, "/a").source).toMatchObject({ schedule: { ...schedule, scheduledAtOffset: 3 } });
    expect(stored(2, {}).source).not.toHaveProperty("schedule");
  });
});
