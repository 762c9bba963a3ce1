/** The promises of schedules, each under its number, held over gRPC by a process of the service on a real database and broker. */
import { itx } from "iterate/events";
import { describe, expect, test } from "vitest";
import { Calls } from "./invoke.fixture.js";
import {
  codeOf,
  person,
  platform,
  useLogService,
  type Caller,
  type Context,
  type EventFields,
  type SeenEvent,
} from "./log-service.fixture.js";

const service = useLogService();
const append = service.append;
const { scheduleSet, scheduleCancelled, scheduleFired, scheduleFailed } = itx;

const due = { type: "example.com/due", payload: { n: 1 } };
const scheduled = (key: string, when: unknown, events: readonly unknown[] = [due]): EventFields => ({
  type: scheduleSet.type,
  payload: { key, when, events },
});
const set = async (context: Context, key: string, when: unknown, events?: readonly unknown[], caller?: Caller): Promise<number> =>
  (await append(context, [scheduled(key, when, events)], caller)).at(-1)!.offset;
const fired = (context: Context, after: number): Promise<SeenEvent> =>
  service.wait(context, [scheduleFired.type], { after, timeoutMs: 20_000 });
const typesAfter = async (context: Context, offset: number): Promise<string[]> =>
  (await service.read(context, offset)).events.map(({ type }) => type.replace("events.iterate.com/", ""));

/** As if so much time had gone by since the context's schedules were set. */
async function age(context: Context, ms: number): Promise<void> {
  const one = `context_id = (select context_id from context where owner = $1 and path = $2)`;
  const by = [context.owner, context.path, ms];
  const older = "- $3::float8 * interval '1 millisecond'";
  await service.pool.query(`update event set created_at = created_at ${older} where ${one}`, by);
  await service.pool.query(`update schedule_due set due_at = due_at ${older} where ${one} and due_at < 'infinity'`, by);
}

describe("a schedule", () => {
  test("[iterate-77] of two events appends both and its record in one batch, says where it is from, and is over", async () => {
    const context = service.newContext("schedule");
    const offset = await set(context, "reminder", { afterMs: 200 }, [due, { type: "example.com/too" }]);
    const record = await fired(context, offset);
    const { events } = await service.read(context, offset);
    expect(events.map((event) => event.offset)).toEqual([offset + 1, offset + 2, offset + 3]);
    expect(events.map(({ type }) => type)).toEqual(["example.com/due", "example.com/too", scheduleFired.type]);
    const { at } = record.payload as { at: string };
    expect(record.payload).toEqual({ key: "reminder", scheduledAtOffset: offset, at, nextAt: null });
    const setAtUs = (await service.read(context, offset - 1)).events[0]!.event.createdAtUs;
    for (const { event } of events) expect(event.createdAtUs - setAtUs).toBeGreaterThanOrEqual(200_000n);
    for (const { event } of events.slice(0, 2))
      expect(event.source).toMatchObject({
        origin: "/",
        principal: undefined,
        platform: false,
        schedule: {
          key: "reminder",
          scheduledAtOffset: BigInt(offset),
          at,
          definedBy: { origin: "/", principal: "usr_acceptance" },
        },
      });
    expect(record.event.source).toMatchObject({ platform: true, schedule: undefined });
    // Nothing follows: the table is empty.
    await service.restart("killed");
    const other = await set(context, "other", { afterMs: 1_500 });
    await fired(context, other);
    expect(await typesAfter(context, other)).toEqual(["example.com/due", "itx/schedule-fired"]);
  });

  test("[iterate-78] is not cancelled by the receipt of the one it replaced", async () => {
    const context = service.newContext("schedule");
    const stale = await set(context, "k", { afterMs: 60_000 });
    const live = await set(context, "k", { afterMs: 700 });
    await append(context, [{ type: scheduleCancelled.type, payload: { key: "k", ifScheduledAtOffset: stale } }]);
    expect((await fired(context, live)).payload).toMatchObject({ key: "k", scheduledAtOffset: live });
    const gone = await set(context, "k", { afterMs: 300 });
    await append(context, [{ type: scheduleCancelled.type, payload: { key: "k", ifScheduledAtOffset: gone } }]);
    const later = await set(context, "later", { afterMs: 1_500 });
    expect((await fired(context, gone)).payload).toMatchObject({ key: "later", scheduledAtOffset: later });
  });

  test("[iterate-79] is one of 100 in its context, and resumes nothing", async () => {
    const context = service.newContext("schedule");
    const many = Array.from({ length: 101 }, (_, n) => scheduled(`k${n}`, { afterMs: 3_600_000 }));
    await expect(append(context, many)).rejects.toMatchObject({ code: "SCHEDULE_LIMIT" });
    expect(await service.head(context)).toEqual({ offset: 0, commitNo: 0 });
    await append(context, many.slice(1));
    await expect(append(context, many.slice(0, 1))).rejects.toMatchObject({ code: "SCHEDULE_LIMIT" });
    await append(context, many.slice(1, 2));
    for (const { type } of [
      itx.resumed,
      itx.paused,
      itx.subscriptionDeliveryResumed,
      scheduleSet,
      scheduleCancelled,
      scheduleFired,
    ])
      await expect(
        set(context, "k1", { afterMs: 0 }, [{ type, payload: { name: "s", key: "k" } }], platform),
      ).rejects.toMatchObject({
        code: "INVALID_INPUT",
        message: expect.stringContaining("may not be scheduled") as string,
      });
  });

  test("[iterate-80] waits while its context is paused; what an interval missed comes to one firing, and then it is on its grid", async () => {
    const context = service.newContext("schedule");
    const once = await set(context, "once", { afterMs: 600 });
    const [pause] = await append(context, [{ type: itx.paused.type, payload: {} }]);
    await age(context, 5_000);
    // A schedule elsewhere that was due later has been fired: this one would have been.
    const elsewhere = service.newContext("schedule");
    await fired(elsewhere, await set(elsewhere, "later", { afterMs: 700 }));
    expect(await typesAfter(context, once)).toEqual(["itx/paused"]);
    await append(context, [{ type: itx.resumed.type, payload: {} }]);
    await fired(context, pause!.offset);
    expect((await typesAfter(context, once)).slice(-2)).toEqual(["example.com/due", "itx/schedule-fired"]);

    const everyMs = 60_000;
    const tick = await set(context, "tick", { everyMs });
    await age(context, 6.5 * everyMs);
    const record = await fired(context, tick);
    const { at, nextAt } = record.payload as { at: string; nextAt: string };
    expect((Date.parse(nextAt) - Date.parse(at)) / everyMs).toBe(6);
    expect(Date.parse(nextAt)).toBeGreaterThan(Number(record.event.createdAtUs / 1_000n));
    await fired(elsewhere, await set(elsewhere, "later", { afterMs: 300 }));
    expect(await typesAfter(context, tick)).toEqual(["example.com/due", "itx/schedule-fired"]);
  });

  test("[iterate-18] may not append what only the platform records, from whomever it is", async () => {
    const context = service.newContext("schedule");
    const owner = context.owner;
    for (const caller of [person, codeOf("/", { owner })])
      for (const type of [itx.created.type, scheduleFailed.type, itx.loopLimit.type]) {
        const payload = { owner, path: "/", key: "k", scheduledAtOffset: 1, error: "", chain: "c", depth: 1 };
        await expect(set(context, "k", { afterMs: 0 }, [{ type, payload }], caller)).rejects.toMatchObject({
          code: expect.stringMatching(/^(FORBIDDEN|INVALID_INPUT)$/) as string,
        });
      }
    expect(await service.head(context)).toEqual({ offset: 0, commitNo: 0 });
  });

  test("that is refused when it is due rests and says why", async () => {
    const context = service.newContext("schedule");
    const rules = [{ types: ["example.com/due"], paths: [context.path], origins: [] }];
    const offset = await set(context, "k", { everyMs: 1_000 }, undefined, codeOf("/", { owner: context.owner }));
    const root = { owner: context.owner, path: "/" };
    await append(root, [{ type: itx.appendPolicyConfigured.type, payload: { rules } }]);
    await age(context, 1_500);
    const failed = await service.wait(context, [scheduleFailed.type], { after: offset, timeoutMs: 20_000 });
    expect(failed.payload).toMatchObject({
      key: "k",
      scheduledAtOffset: offset,
      error: expect.stringContaining("policy") as string,
    });
    await append(root, [{ type: itx.appendPolicyConfigured.type, payload: { rules: null } }]);
  });
});

describe("schedules by expression", () => {
  const calls = new Calls(service);
  const call = (context: Context, expression: string | readonly unknown[]) => calls.value(context, expression);

  test("are set, shown with what they append and when, and cancelled by their receipt", async () => {
    const context = service.newContext("expression");
    expect(await call(context, "itx.schedules.list()")).toEqual([]);
    const when = { cron: "0 9 * * MON-FRI", timeZone: "Europe/London" };
    const schedule = { key: "daily", when, events: [{ type: "acme/report-due", payload: { n: 1 } }] };
    const receipt = (await call(context, ["itx", "schedules", ["set", schedule]])) as { key: string; scheduledAtOffset: number };
    expect(receipt).toEqual({ key: "daily", scheduledAtOffset: expect.any(Number) as number });
    const shown = { ...schedule, ...receipt, nextAt: expect.stringMatching(/T0[89]:00:00.000Z$/) as string, failedAtOffset: null };
    expect(await call(context, "itx.schedules.list()")).toEqual([shown]);
    expect(await call(context, 'itx.schedules.get("daily")')).toEqual(shown);
    expect(await call(context, 'itx.schedules.get("weekly")')).toBeNull();
    expect(await call(context, 'itx.schedules.cancel("daily", {ifScheduledAtOffset: 1})')).toEqual({ cancelled: false });
    expect(await call(context, 'itx.schedules.cancel("daily")')).toEqual({ cancelled: true });
    expect(await call(context, 'itx.schedules.cancel("daily")')).toEqual({ cancelled: false });
  });

  test("are held to the rules of who sets them: code schedules no rule that it may not write, and no schedule opens a jail", async () => {
    const context = service.newContext("walled");
    const rule = (match: string, target: unknown) => ({ type: itx.rewriteRuleConfigured.type, payload: { match, target } });
    const code = codeOf(context.path, { owner: context.owner });
    await expect(set(context, "k", { afterMs: 0 }, [rule("itx.kv", "itx.builtins.kv")], code)).rejects.toMatchObject({
      code: "FORBIDDEN",
    });
    await append(context, [rule("itx", null)]);
    const offset = await set(context, "k", { afterMs: 0 }, [rule("itx", "itx.builtins")]);
    const failed = await service.wait(context, [scheduleFailed.type], { after: offset, timeoutMs: 20_000 });
    expect(failed.payload).toMatchObject({ key: "k", error: expect.stringContaining("only a person opens it") as string });
  });
});

describe("at the door", () => {
  const limits = itx.scheduleLimits;
  const day = 86_400_000;
  const padded = (bytes: number): EventFields => {
    const empty = JSON.stringify({ key: "k", when: { afterMs: day }, events: [{ type: "a/b", payload: "" }] });
    return {
      type: scheduleSet.type,
      payload: Buffer.from(empty.replace('"payload":""', `"payload":"${"x".repeat(bytes - empty.length)}"`)),
    };
  };
  const cases: [string, (beyond: number) => EventFields][] = [
    ["a key", (beyond) => scheduled("é".repeat(limits.keyBytes / 2 - 1) + "k".repeat(2 + beyond), { afterMs: day })],
    [
      "events",
      (beyond) =>
        scheduled(
          "k",
          { afterMs: day },
          Array.from({ length: limits.events + beyond }, () => due),
        ),
    ],
    ["a definition", (beyond) => padded(limits.definitionBytes + beyond)],
    ["a delay", (beyond) => scheduled("k", { afterMs: limits.delayMs + beyond })],
    ["an interval", (beyond) => scheduled("k", { everyMs: limits.delayMs + beyond })],
    ["a short interval", (beyond) => scheduled("k", { everyMs: limits.minIntervalMs - beyond })],
    [
      "a catch-up",
      (beyond) => scheduled("k", { cron: "0 0 1 1 *", timeZone: "UTC", catchUp: "all", max: limits.maxCaughtUp + beyond }),
    ],
    ["a time", (beyond) => scheduled("k", { at: new Date(Date.now() + limits.delayMs + beyond * 60_000).toISOString() })],
  ];
  test.for(cases.flatMap(([what, make]) => [-1, 0, 1].map((beyond) => [what, beyond, make] as const)))(
    "%s at its limit and %i",
    async ([what, beyond, make]) => {
      const context = service.newContext("limit");
      // What is exactly so far ahead is not any more when it arrives.
      const isRefused = beyond > 0;
      const answer = append(context, [make(beyond)]);
      if (isRefused)
        await expect(answer, what).rejects.toMatchObject({ code: what === "a definition" ? "EVENT_TOO_LARGE" : "INVALID_INPUT" });
      else await answer;
    },
  );

  test.for<[string, unknown]>([
    ["no pattern", { cron: "61 * * * *", timeZone: "UTC" }],
    ["a pattern that never comes", { cron: "0 0 30 2 *", timeZone: "UTC" }],
    ["seconds", { cron: "* * * * * *", timeZone: "UTC" }],
    ["no zone", { cron: "0 9 * * *", timeZone: "Middle/Earth" }],
    ["a pattern without a zone", { cron: "0 9 * * *" }],
    ["a catch-up of all without a bound", { cron: "0 9 * * *", timeZone: "UTC", catchUp: "all" }],
    ["a time without an offset from UTC", { at: "2030-01-01T00:00:00" }],
    ["two times", { afterMs: 1, everyMs: 1_000 }],
    ["none", {}],
  ])("%s is refused", async ([, when]) => {
    await expect(set(service.newContext("when"), "k", when)).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });

  test("an event that could never be appended is refused", async () => {
    const context = service.newContext("events");
    for (const event of [
      { type: "events.iterate.com/itx/no-such" },
      { type: itx.subscriptionConfigured.type, payload: { name: "core", target: null } },
      { type: "a/b", idempotencyKey: "K" },
      { type: "" },
    ])
      await expect(set(context, "k", { afterMs: 0 }, [event])).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });
});
