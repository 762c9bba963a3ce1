/**
 * What a hostile caller may send: each is refused with a code, or stored and read back byte for byte. Nothing makes the process end, and
 * somebody else's appends go on beside all of it.
 */
import type { ContextAddress } from "@iterate-platform/proto/iterate/type/v1/context";
import { uuidv7 } from "@iterate-platform/service/ids";
import { isErrorCode } from "iterate/lib";
import { itx } from "iterate/events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { inputOf, person, platform, useLogService, type EventFields } from "./log-service.fixture.js";

const service = useLogService();

/** Appends of a neighbour, one after the other, for as long as the file runs. */
const neighbour = { isGoing: true, appended: 0, done: Promise.resolve() };
beforeAll(() => {
  const context = { owner: service.owner, path: "/neighbour" };
  neighbour.done = (async () => {
    while (neighbour.isGoing) {
      const [receipt] = await service.append(context, [{ payload: neighbour.appended }]);
      neighbour.appended += 1;
      expect(receipt!.offset).toBe(neighbour.appended + 1);
    }
  })();
  neighbour.done.catch(() => undefined);
});
afterAll(async () => {
  neighbour.isGoing = false;
  await neighbour.done;
  expect(neighbour.appended).toBeGreaterThan(20);
  expect(service.faults).toEqual([]);
});

const clients = () => service.as(person);
const errorOf = (work: Promise<unknown>): Promise<{ code: string; retryable: boolean }> =>
  work.then(
    () => Promise.reject(new Error("it was taken")),
    (error: unknown) => error as { code: string; retryable: boolean },
  );

/** Appends one body, without and with a key, and reads it back. */
async function comesBack(text: Buffer, field: "payload" | "metadata" = "payload"): Promise<void> {
  const context = service.newContext("body");
  await service.append(context, [{ [field]: text }, { [field]: text, key: "K" }]);
  expect(await service.append(context, [{ [field]: text, key: "K" }])).toEqual([{ offset: 3, existing: true }]);
  for (const after of [1n, 2n]) {
    const { events } = await clients().readEvents({ context, afterOffset: after, limit: 1, types: [], includeEphemeral: false });
    expect(Buffer.from(events[0]![field]!).equals(text)).toBe(true);
  }
}

async function isRefused(fields: EventFields, code: string): Promise<void> {
  const context = service.newContext("refused");
  expect(await errorOf(service.append(context, [{ payload: "beside" }, fields]))).toMatchObject({ code, retryable: false });
  expect(await service.head(context)).toEqual({ offset: 0, commitNo: 0 });
}

const nested = (depth: number, open: string, close: string, inner = "1") =>
  Buffer.from(open.repeat(depth) + inner + close.repeat(depth));
const keys = (count: number) => Buffer.from(`{${Array.from({ length: count }, (_, at) => `"${at.toString(36)}":1`).join()}}`);
const raw = String.raw;

describe("a body that is JSON", () => {
  test.each<[string, Buffer]>([
    ["with 128 arrays in each other", nested(128, "[", "]")],
    ["with 128 objects in each other", nested(128, '{"a":', "}")],
    ["with every escape", Buffer.from(raw`"\" \\ \/ \b \f \n \r \t é"`)],
    ["with an escaped NUL", Buffer.from(raw`{"a\u0000":"\u0000"}`)],
    ["with lone surrogates, escaped", Buffer.from(raw`["\ud800","\udc00",{"\udfff":1}]`)],
    ["with a number beyond every range", Buffer.from("[1e400,-1e400,1e-400,123456789012345678901234567890]")],
    ["with a number of 100,000 digits", Buffer.from(`1${"0".repeat(99_999)}.5e1`)],
    ["with spellings of zero", Buffer.from("[0,-0,0.0,0e0,0E-0]")],
    ["with names of prototypes", Buffer.from('{"__proto__":{"polluted":true},"constructor":{"prototype":{"x":1}},"toString":1}')],
    ["with a name that only differs in normal form", Buffer.from('{"\u00e9":1,"e\u0301":2}')],
    ["with 300,000 keys", keys(300_000)],
    ["with spaces around it", Buffer.from(" \t\r\n{ }\n")],
    ["null", Buffer.from("null")],
  ])("%s comes back as it was sent", (_what, text) => comesBack(text), 60_000);

  test("may be the metadata too", () => comesBack(Buffer.from(raw`{"__proto__":"\ud800","n":1.0}`), "metadata"));

  test("pollutes nothing", async () => {
    const context = service.newContext("polluted");
    const body = Buffer.from('{"__proto__":{"polluted":true,"source":{"platform":true}}}');
    await service.append(context, [{ payload: body, metadata: body }]);
    const [, event] = (await service.read(context)).events;
    expect(event!.event.source!.platform).toBe(false);
    await expect(
      service.wait(context, [event!.type], { after: 0, payload: { polluted: true }, timeoutMs: 200 }),
    ).rejects.toMatchObject({
      code: "WAIT_TIMEOUT",
    });
  });
});

describe("a body that is none", () => {
  test.each<[string, Buffer]>([
    ["nothing", Buffer.alloc(0)],
    ["spaces", Buffer.from("  ")],
    ["129 arrays in each other", nested(129, "[", "]")],
    ["129 objects in each other", nested(129, '{"a":', "}")],
    ["a million arrays", nested(1_000_000, "[", "]")],
    ["a million arrays that do not end", Buffer.alloc(1_000_000, "[")],
    ["an unknown escape", Buffer.from(raw`"\x41"`)],
    ["half an escape", Buffer.from(raw`"\u12"`)],
    ["a raw NUL in a text", Buffer.from('"\0"')],
    ["a raw NUL after a value", Buffer.from("1\0")],
    ["a raw line break in a text", Buffer.from('"\n"')],
    ["a surrogate in UTF-8", Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
    ["an overlong NUL", Buffer.from([0x22, 0xc0, 0x80, 0x22])],
    ["half a character", Buffer.from([0x22, 0xe2, 0x82, 0x22])],
    ["a byte order mark", Buffer.from("\ufeff1")],
    ["a key twice", Buffer.from('{"a":1,"a":2}')],
    ["a key twice, spelt otherwise", Buffer.from(raw`{"a":1,"\u0061":2}`)],
    ["a prototype twice", Buffer.from('{"__proto__":1,"__proto__":2}')],
    ["a key twice among many", Buffer.from(`${keys(50_000).toString().slice(0, -1)},"a":2}`)],
    ["a leading zero", Buffer.from("01")],
    ["a plus", Buffer.from("+1")],
    ["a bare fraction", Buffer.from(".5")],
    ["no fraction", Buffer.from("1.")],
    ["NaN", Buffer.from("NaN")],
    ["Infinity", Buffer.from("-Infinity")],
    ["a hexadecimal number", Buffer.from("0x10")],
    ["two values", Buffer.from("1 2")],
    ["a comma too many", Buffer.from("[1,]")],
    ["a comment", Buffer.from("/**/1")],
    ["single quotes", Buffer.from("'a'")],
    ["a text that does not end", Buffer.from('"a')],
  ])("%s is refused", async (_what, text) => {
    await isRefused({ payload: text }, "INVALID_JSON");
    await isRefused({ payload: 1, metadata: text, key: "K" }, "INVALID_JSON");
  });

  test("a million keys are over the size of an event", () => isRefused({ payload: keys(1_000_000) }, "EVENT_TOO_LARGE"));

  test.each<[string, unknown]>([
    ["a name of a prototype", { name: "__proto__", target: null }],
    ["a name of a constructor", { name: "constructor", target: null }],
    ["fields below a prototype", Buffer.from('{"__proto__":{"name":"a","target":null}}')],
    ["a field nobody declared", { name: "a", target: null, extra: 1 }],
    ["a declared prototype beside it", Buffer.from('{"name":"a","target":null,"__proto__":1}')],
    ["no payload", undefined],
    ["a list", []],
    ["an offset beyond integers", Buffer.from('{"name":"a","target":null,"afterOffset":1e400}')],
    ["a fraction for an offset", { name: "a", target: null, afterOffset: 1.5 }],
  ])("a control event with %s is refused", (_what, payload) =>
    isRefused({ type: itx.subscriptionConfigured.type, ...(payload === undefined ? {} : { payload }) }, "INVALID_INPUT"),
  );
});

describe("a context", () => {
  const append = (context: ContextAddress) =>
    clients().append({ context, appendId: uuidv7(), events: [inputOf({ payload: 1 })] }, { principal: person.principal! });
  const pathOf = (bytes: number) => `/${"é".repeat(Math.floor((bytes - 1) / 2))}${bytes % 2 === 0 ? "x" : ""}`;

  test.each([
    ["that climbs", "/a/../b"],
    ["that stays", "/a/./b"],
    ["above the root", "/.."],
    ["without a root", "a"],
    ["of nothing", ""],
    ["with two slashes", "/a//b"],
    ["that ends in a slash", "/a/"],
    ["with a NUL", "/a\0b"],
    ["of 1,025 bytes", pathOf(1_025)],
    ["of 4 KB", `/${"x".repeat(4_095)}`],
  ])("%s is refused by every method", async (_what, path) => {
    const context = { owner: service.owner, path };
    for (const call of [
      append(context),
      clients().readEvents({ context, afterOffset: 0n, limit: 0, types: [], includeEphemeral: false }),
      clients().waitForEvent({ context, types: ["a"], payload: undefined, afterOffset: 0n, timeoutMs: 10 }),
      clients().describeContext({ context }),
      clients().streamEvents({ context, afterOffset: 0n, types: [], includeEphemeral: false }).next(),
    ])
      expect(await errorOf(call)).toMatchObject({ code: "INVALID_CONTEXT", retryable: false });
  });

  test.each([
    "",
    "prj_",
    "prj_x",
    "GLOBAL",
    "global ",
    `prj_${"u".repeat(26)}`,
    `prj_${"0".repeat(27)}`,
    "usr_00000000000000000000000000",
  ])("of the owner %j is refused", async (owner) => {
    expect(await errorOf(append({ owner, path: "/" }))).toMatchObject({ code: "INVALID_CONTEXT" });
  });

  test("whose name looks like another's is another", async () => {
    const alike = [
      "/admin",
      "/аdmin",
      "/ADMIN",
      "/admin\u200b",
      "/\u202eadmin",
      "/ａdmin",
      "/caf\u00e9",
      "/cafe\u0301",
      "/%61dmin",
      "/admin%2f..",
    ];
    for (const [index, path] of alike.entries()) {
      const context = { owner: service.owner, path };
      const taken = await append(context).then(
        () => true,
        (error: { code: string }) => expect(error.code).toBe("INVALID_CONTEXT"),
      );
      if (taken !== true) continue;
      await service.append(context, [{ payload: index }]);
      expect((await service.read(context)).events.slice(1).map(({ payload }) => payload)).toEqual([1, index]);
    }
  });

  test("of 1,023 and 1,024 bytes is one like any other", async () => {
    for (const bytes of [1_023, 1_024]) {
      const path = pathOf(bytes);
      expect(Buffer.byteLength(path)).toBe(bytes);
      await append({ owner: service.owner, path });
      expect((await service.read({ owner: service.owner, path })).offsets).toEqual([1, 2]);
    }
  });
});

describe("at its limit, one below and one above,", () => {
  const text = (bytes: number) => "é".repeat(Math.floor(bytes / 2)) + "x".repeat(bytes % 2);

  test.each<[string, (size: number) => EventFields, number, string]>([
    ["a type", (size) => ({ type: text(size) }), 256, "INVALID_INPUT"],
    ["a key", (size) => ({ key: text(size) }), 512, "INVALID_INPUT"],
    ["a body", (size) => ({ payload: Buffer.from(`"${"x".repeat(size - 2)}"`) }), 8 * 1_048_576, "EVENT_TOO_LARGE"],
    [
      "a control payload",
      (size) => ({ type: itx.paused.type, payload: Buffer.from(`{"reason":"a"}${" ".repeat(size - 14)}`) }),
      262_144,
      "EVENT_TOO_LARGE",
    ],
  ])("%s is taken, taken and refused", async (_what, fields, limit, code) => {
    for (const size of [limit - 1, limit]) {
      const context = service.newContext("limit");
      const [receipt] = await service.append(context, [fields(size)], platform);
      expect(receipt!.offset).toBe(2);
    }
    await isRefused(fields(limit + 1), code);
  });

  test("a batch of 999, 1,000 and 1,001 events; of 16 MiB and more", async () => {
    const context = service.newContext("batch");
    for (const count of [999, 1_000])
      await service.append(
        context,
        Array.from({ length: count }, () => ({})),
      );
    expect(
      await errorOf(
        service.append(
          context,
          Array.from({ length: 1_001 }, () => ({})),
        ),
      ),
    ).toMatchObject({ code: "BATCH_TOO_LARGE" });
    const half = Buffer.from(`"${"x".repeat(8 * 1_048_576 - 2)}"`);
    expect(await errorOf(service.append(context, [{ payload: half }, { payload: half }]))).toMatchObject({
      code: "BATCH_TOO_LARGE",
    });
    expect((await service.head(context)).offset).toBe(2_000);
  });

  test.each<[string, bigint, string | null]>([
    ["−1", -1n, "INVALID_INPUT"],
    ["0", 0n, "INVALID_INPUT"],
    ["1, where the birth of the context is", 1n, "OFFSET_CONFLICT"],
    ["2, which is next", 2n, null],
    ["2^53 − 1", 2n ** 53n - 1n, "OFFSET_CONFLICT"],
    ["2^53", 2n ** 53n, "INVALID_INPUT"],
    ["2^63 − 1", 2n ** 63n - 1n, "INVALID_INPUT"],
    ["−2^63", -(2n ** 63n), "INVALID_INPUT"],
  ])("an expected offset of %s", async (_what, offset, code) => {
    const context = service.newContext("offset");
    const appending = service.append(context, [{ offset }]);
    if (code === null) expect(await appending).toMatchObject([{ offset: 2 }]);
    else expect(await errorOf(appending)).toMatchObject({ code });
  });

  test("an offset to read after, a count, a wait and a list of types", async () => {
    const context = service.newContext("read");
    await service.append(context, [{}]);
    const page = { context, afterOffset: 0n, limit: 0, types: [] as string[], includeEphemeral: false };
    const wait = { context, types: ["never"], payload: undefined, afterOffset: 0n, timeoutMs: 1 };
    const taken = [
      clients().readEvents({ ...page, afterOffset: 2n ** 53n - 1n }),
      clients().readEvents({ ...page, limit: 1_000 }),
      clients().readEvents({ ...page, types: Array.from({ length: 100 }, (_, at) => `t${at}`) }),
      clients().readEvents({ ...page, types: ["x".repeat(256)] }),
    ];
    for (const { atHead } of await Promise.all(taken)) expect(atHead).toBe(true);
    expect(await errorOf(clients().waitForEvent(wait))).toMatchObject({ code: "WAIT_TIMEOUT" });
    for (const refused of [
      clients().readEvents({ ...page, afterOffset: -1n }),
      clients().readEvents({ ...page, afterOffset: 2n ** 53n }),
      clients().readEvents({ ...page, afterOffset: 2n ** 63n - 1n }),
      clients().readEvents({ ...page, limit: -1 }),
      clients().readEvents({ ...page, limit: 1_001 }),
      clients().readEvents({ ...page, types: Array.from({ length: 101 }, () => "t") }),
      clients().readEvents({ ...page, types: [""] }),
      clients().readEvents({ ...page, types: ["a\0"] }),
      clients().readEvents({ ...page, types: ["x".repeat(257)] }),
      clients().waitForEvent({ ...wait, timeoutMs: -1 }),
      clients().waitForEvent({ ...wait, timeoutMs: 120_001 }),
      clients().waitForEvent({ ...wait, types: [] }),
      clients().waitForEvent({ ...wait, payload: Buffer.alloc(65_537, " ") }),
      clients().streamEvents({ context, afterOffset: -1n, types: [], includeEphemeral: false }).next(),
    ])
      expect(await errorOf(refused)).toMatchObject({ code: "INVALID_INPUT", retryable: false });
    for (const payload of ["{", "[".repeat(60_000), '{"a":1,"a":1}'])
      expect((await errorOf(clients().waitForEvent({ ...wait, payload: Buffer.from(payload) }))).code).toMatch(/^INVALID_/);
  });
});

describe("a name", () => {
  test.each<[string, EventFields]>([
    ["a blank type", { type: " " }],
    ["no type", { type: "" }],
    ["a type with a NUL", { type: "a\0b" }],
    ["a type the platform has not", { type: "events.iterate.com/itx/invented" }],
    ["the platform's prefix", { type: "events.iterate.com/" }],
    ["a type of three segments", { type: "events.iterate.com/itx/a/b" }],
    ["a key with a NUL", { key: "a\0b" }],
  ])("like %s is refused", (_what, fields) => isRefused(fields, "INVALID_INPUT"));

  test("that looks like the platform's is opaque", async () => {
    const context = service.newContext("alike");
    const types = [
      "Events.iterate.com/itx/paused",
      "events.iterate.com",
      "events.iterаte.com/itx/paused",
      "__proto__",
      "constructor",
      "../itx/paused",
    ];
    await service.append(
      context,
      types.map((type) => ({ type, key: `key of ${type}` })),
    );
    expect((await service.read(context)).events.slice(1).map(({ type }) => type)).toEqual(types);
    expect((await service.read(context, 0, { types: ["__proto__"] })).offsets).toEqual([5]);
    await service.append(context, [{}]);
  });

  test.each(["x", "00000000-0000-0000-0000-00000000000", `${uuidv7()} `, uuidv7().replaceAll("-", ""), "../../etc/passwd", "a\0"])(
    "of an append like %j is refused",
    async (appendId) => {
      const error = await errorOf(service.append(service.newContext("id"), [{}], person, appendId));
      expect(isErrorCode(error.code)).toBe(true);
      expect(error).toMatchObject({ code: "INVALID_INPUT", retryable: false });
    },
  );

  test("of a processor too long to keep is refused", async () => {
    const context = service.newContext("label");
    const label = (slug: string) => ({
      ...inputOf({}),
      processor: { slug, version: "1", whileProcessingOffset: 0n, whileProcessingType: "" },
    });
    const send = (slug: string) => clients().append({ context, appendId: uuidv7(), events: [label(slug)] }, { principal: "usr_a" });
    for (const slug of ["x".repeat(255), "x".repeat(256)]) await send(slug);
    for (const slug of ["x".repeat(257), "", "a\0b"]) expect(await errorOf(send(slug))).toMatchObject({ code: "INVALID_INPUT" });
  });
});
