/** What project code can do to its process, its neighbours and the platform: nothing but fail by a code. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { eventually } from "@iterate-platform/testing";
import { bundleOf, echo, processorBundle, run, startIsolate } from "./isolate.fixture.js";
import type { Isolate } from "./isolate.js";
import type { IsolateLimits } from "./limits.js";

const started: Isolate[] = [];
async function isolateOf(...args: Parameters<typeof startIsolate>): Promise<Isolate> {
  const isolate = await startIsolate(...args);
  started.push(isolate);
  return isolate;
}
afterEach(async () => {
  await Promise.all(started.splice(0).map((isolate) => isolate.end()));
});

const quick: Partial<IsolateLimits> = { loopMs: 400 };

describe("a batch", () => {
  test("answers frames in order, with its records and the replies to its host calls", async () => {
    const isolate = await isolateOf(
      processorBundle(`
        console.log("got %s", input.word, { deep: [1] });
        console.error("bad");
        yield { kind: "checkpoint", word: input.word };
        yield { kind: "settled", reply: await itx().hostCall("append", [{ type: "x" }], "/a/b") };`),
    );
    const outcome = await run(isolate, { input: { word: "hi" } });
    expect(outcome.frames).toEqual([
      { kind: "checkpoint", word: "hi" },
      { kind: "settled", reply: [{ type: "x" }] },
    ]);
    expect(outcome.logs.map(({ level, message }) => [level, message])).toEqual([
      ["info", "got hi { deep: [ 1 ] }"],
      ["error", "bad"],
    ]);
    expect(outcome.hostCalls).toMatchObject([{ callId: 1, method: "append", path: "/a/b" }]);
  });

  test("with background work goes on only when the platform says that the checkpoint is kept", async () => {
    const isolate = await isolateOf(
      processorBundle(`yield { backgroundCount: 1 }; await itx().hostCall("work", [], "/"); yield 2;`),
    );
    const seen: unknown[] = [];
    const outcome = await run(isolate, {
      onHostCall: (call, invocation) => (seen.push(call.method), invocation.reply(echo(call))),
    });
    expect(outcome.frames).toEqual([{ backgroundCount: 1 }, 2]);
    expect(seen).toEqual(["batch.proceed", "work"]);
  });

  test("keeps concurrent invocations' records and contexts apart", async () => {
    const isolate = await isolateOf(
      processorBundle(`for (let i = 0; i < 20; i++) { console.log(input.name); await itx().hostCall("tick", [], "/"); } yield 1;`),
    );
    const outcomes = await Promise.all(["a", "b", "c"].map((name) => run(isolate, { input: { name } })));
    expect(outcomes.map(({ logs }) => [...new Set(logs.map(({ message }) => message))])).toEqual([["a"], ["b"], ["c"]]);
    expect(outcomes.map(({ logs }) => logs.length)).toEqual([20, 20, 20]);
  });

  test.each([
    ["throw new TypeError('boom')", "TypeError: boom"],
    ["throw 'text'", "The code threw something that is no Error: text"],
    ["throw null", "The code threw something that is no Error: null"],
    ["throw { a: 1 }", 'The code threw something that is no Error: {"a":1}'],
    [
      "throw Object.defineProperty(new Error('x'), 'message', { get() { throw 1 } })",
      "The code threw something that cannot be read.",
    ],
    ["throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 1 } })", "The code threw something that cannot be read."],
    ["await Promise.reject(undefined)", "The code threw something that is no Error: undefined"],
  ])("that does `%s` is CODE_FAILED with a readable message", async (body, message) => {
    const isolate = await isolateOf(processorBundle(body));
    expect((await run(isolate)).failure?.error).toMatchObject({ code: "CODE_FAILED", message });
  });

  test("that throws has its stack in the project's module names, and the harness in none of it", async () => {
    const isolate = await isolateOf(
      bundleOf(`import { fail } from "./lib/fail.js"; export class P { async *processEventBatch() { fail(); } }`, {
        "lib/fail.js": "export function fail() { throw new Error('x') }",
      }),
    );
    const stack = (await run(isolate)).failure?.stack ?? "";
    expect(stack).toContain("at fail (lib/fail.js:1:");
    expect(stack).toContain("main.js:1:");
    expect(stack).not.toMatch(/harness|bundle\//);
  });

  test("of a class that is not exported, or is no processor, says so", async () => {
    const isolate = await isolateOf(bundleOf("export class Other {}; export const P = class {};"));
    expect((await run(isolate)).failure?.error).toMatchObject({ code: "NOT_A_METHOD" });
    const without = await isolateOf(bundleOf("export const x = 1;"));
    expect((await run(without)).failure?.error).toMatchObject({
      code: "NOT_FOUND",
      message: "The bundle exports no class P from main.js.",
    });
  });
});

describe("code that holds the processor", () => {
  test.each([
    ["loops", "for (;;);"],
    ["loops in microtasks", "for (;;) await null;"],
    ["loops after an await", "await new Promise((resolve) => setTimeout(resolve, 20)); for (;;);"],
  ])("is ended as ISOLATE_CPU when it %s", async (_how, body) => {
    const isolate = await isolateOf(processorBundle(`console.log("last words"); ${body}`), quick);
    const outcome = await run(isolate, { limits: quick });
    expect(outcome.error).toMatchObject({ code: "ISOLATE_CPU", data: { alone: true } });
    expect(outcome.logs).toMatchObject([{ message: "last words" }]);
    expect(isolate.isAlive).toBe(false);
  });

  test("ends its process's other invocations as ISOLATE_LOST and leaves other bundles alone", async () => {
    const [looping, healthy] = await Promise.all([
      isolateOf(processorBundle("if (input.loop) for (;;); await new Promise((resolve) => setTimeout(resolve, 60_000));"), quick),
      isolateOf(processorBundle("yield 1;")),
    ]);
    const waiting = run(looping, { limits: quick });
    const guilty = run(looping, { limits: quick, input: { loop: true } });
    let answered = 0;
    while (looping.isAlive) answered += (await run(healthy)).frames.length;
    expect(answered).toBeGreaterThan(5);
    for (const outcome of await Promise.all([waiting, guilty])) {
      expect(outcome.error).toMatchObject({ code: "ISOLATE_LOST", retryable: true, data: { alone: false, reason: "ISOLATE_CPU" } });
    }
  });

  test("and outlives its invocation's deadline is ended though nothing is in flight", async () => {
    const isolate = await isolateOf(processorBundle("for (;;);"), quick);
    expect((await run(isolate, { deadlineMs: 100 })).error).toMatchObject({ code: "ISOLATE_DEADLINE" });
    expect(await isolate.ended).toMatchObject({ kind: "loop" });
  });

  test("while it loads is ended by the start deadline", async () => {
    const startedAt = performance.now();
    await expect(startIsolate(bundleOf("for (;;);"), { startDeadlineMs: 500 })).rejects.toMatchObject({
      code: "ISOLATE_START",
      message: expect.stringContaining("within 500 ms"),
    });
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });
});

describe("code that does not settle", () => {
  test.each(["await itx().hostCall('m', [], '/')", "await new Promise((resolve) => setTimeout(resolve, 60_000))"])(
    "but waits (%s) is told ISOLATE_DEADLINE, and its process is kept",
    async (wait) => {
      const isolate = await isolateOf(processorBundle(`if (input.wait) ${wait}; yield 1;`));
      const outcome = await run(isolate, { deadlineMs: 150, input: { wait: true }, onHostCall: () => undefined });
      expect(outcome.error).toMatchObject({ code: "ISOLATE_DEADLINE", message: expect.stringContaining("150 ms") });
      expect((await run(isolate)).frames).toEqual([1]);
    },
  );

  test.each(["", "yield 'x'.repeat(300_000);"])(
    "because nothing could ever settle it fails at once, also after %s",
    async (before) => {
      const isolate = await isolateOf(processorBundle(`${before} await new Promise(() => {});`));
      expect((await run(isolate)).error).toMatchObject({
        code: "CODE_FAILED",
        message: expect.stringContaining("nothing will settle"),
      });
      expect(isolate.isAlive).toBe(true);
    },
  );
});

describe("code that does not load", () => {
  test.each([
    ["a syntax error", "export const x = ;", "SyntaxError: Unexpected token ';'\n  at main.js:1:17"],
    ["a missing module", 'import "lodash";', 'Error: No such module "lodash".\n  imported from "main.js"'],
    ["a throw at top level", "throw new Error('top');", "Error: top\n  at main.js:1:7"],
    ["a wait that never ends", "await new Promise(() => {});", "Error: Top-level await in module is unsettled."],
  ])("for %s is ISOLATE_START in the project's own words", async (_what, source, message) => {
    await expect(startIsolate(bundleOf(source))).rejects.toMatchObject({ code: "ISOLATE_START", message });
  });
});

describe("code that takes memory", () => {
  const ended = ["ISOLATE_MEMORY", "CODE_FAILED"];
  test.each([
    ["objects", ended, "const all = []; for (;;) all.push({ a: [all.length] });"],
    ["buffers it keeps", ended, "const all = []; for (;;) all.push(new Uint8Array(8 << 20).fill(1));"],
    // Filling it may take longer than a loop is let run.
    ["one huge array", [...ended, "ISOLATE_CPU"], "new Array(1e9).fill(0);"],
    [
      "wasm memory",
      ended,
      "const memory = new WebAssembly.Memory({ initial: 1 }); for (;;) { memory.grow(256); new Uint8Array(memory.buffer).fill(1, memory.buffer.byteLength - (16 << 20)); }",
    ],
  ])("as %s is refused or ended within its limits", async (_what, codes, body) => {
    const isolate = await isolateOf(processorBundle(body));
    let peak = 0;
    const watch = setInterval(() => (peak = Math.max(peak, isolate.residentBytes)), 5);
    const outcome = await run(isolate);
    clearInterval(watch);
    const code = outcome.error?.code ?? outcome.failure?.error.code;
    // V8 throws what it can refuse; the rest ends the process.
    expect(code).toBeOneOf(codes);
    if (code === "CODE_FAILED") expect(outcome.failure?.error.message).toMatch(/RangeError|memory/i);
    expect(peak).toBeLessThan(500 * 2 ** 20);
  });
});

describe("code that writes too much", () => {
  test("in one frame, or in all, is ISOLATE_OUTPUT, and its process is kept", async () => {
    const limits = { frameBytes: 1_000_000, outputBytes: 3_000_000 };
    const isolate = await isolateOf(
      processorBundle("if (input.none) return; do yield 'x'.repeat(input.size); while (input.flood)"),
      limits,
    );
    expect((await run(isolate, { limits, input: { size: 999_998 } })).frames).toHaveLength(1);
    expect((await run(isolate, { limits, input: { size: 999_999 } })).error).toMatchObject({
      code: "ISOLATE_OUTPUT",
      message: expect.stringContaining("1000000 bytes"),
    });
    expect((await run(isolate, { limits, input: { size: 400_000, flood: true } })).error).toMatchObject({
      code: "ISOLATE_OUTPUT",
      message: expect.stringContaining("3000000 bytes"),
    });
    expect((await run(isolate, { limits, input: { none: true } })).error).toBeUndefined();
  });

  test("to the console is cut with one record that says so", async () => {
    const isolate = await isolateOf(
      processorBundle(
        "for (let i = 0; i < 20_000; i++) console.log(String(i).padEnd(100)); console.log('y'.repeat(50_000)); yield 1;",
      ),
    );
    const { logs, frames } = await run(isolate);
    expect(frames).toEqual([1]);
    expect(logs.reduce((sum, { message }) => sum + message.length, 0)).toBeLessThan(257 * 1024);
    expect(logs.filter(({ message }) => message.startsWith("truncated:"))).toHaveLength(1);
    expect(logs.at(-1)).toMatchObject({ level: "warn", message: expect.stringMatching(/^truncated:/) });
  });
});

describe("host calls", () => {
  test.each([
    [3, undefined],
    [4, "QUOTA"],
  ])("%i of 3 end as %s", async (calls, code) => {
    const isolate = await isolateOf(
      processorBundle("for (let i = 0; i < input.calls; i++) await itx().hostCall('m', [i], '/'); yield 1;"),
    );
    const outcome = await run(isolate, { hostCalls: 3, input: { calls } });
    expect(outcome.error?.code).toBe(code);
    expect(outcome.hostCalls).toHaveLength(3);
    expect(isolate.isAlive).toBe(true);
  });

  test("overlap, and a failed one throws an Error with its own code and data", async () => {
    const isolate = await isolateOf(
      processorBundle(`
        const results = await Promise.allSettled([1, 2, 3].map((n) => itx().hostCall("m", [n], "/")));
        yield results.map(({ value, reason }) => value ?? [reason instanceof Error, reason.code, reason.message, reason.data]);`),
    );
    const failed = Buffer.from(JSON.stringify({ code: "STREAM_PAUSED", message: "paused", data: { a: 1 } }));
    const outcome = await run(isolate, {
      onHostCall: (call, invocation) =>
        setTimeout(
          () => invocation.reply(call.callId === 2 ? { callId: 2, succeeded: false, body: failed } : echo(call)),
          30 - 10 * call.callId,
        ),
    });
    expect(outcome.frames).toEqual([[[1], [true, "STREAM_PAUSED", "paused", { a: 1 }], [3]]]);
  });

  test("through an itx that was kept from an earlier invocation are refused", async () => {
    const isolate = await isolateOf(
      processorBundle(
        `if (input.keep) { globalThis.kept = itx(); await kept.hostCall("m", [], "/"); } else await kept.hostCall("stolen", [], "/"); yield 1;`,
      ),
    );
    expect((await run(isolate, { input: { keep: true } })).frames).toEqual([1]);
    const thief = await run(isolate);
    expect(thief.failure?.error).toMatchObject({ code: "CODE_FAILED", data: { code: "CANCELLED" } });
    expect(thief.hostCalls).toEqual([]);
  });

  test("larger than the limit end the invocation as ISOLATE_OUTPUT", async () => {
    const limits = { hostCallBytes: 100_000 };
    const isolate = await isolateOf(processorBundle("await itx().hostCall('m', ['x'.repeat(input.size)], '/'); yield 1;"), limits);
    expect((await run(isolate, { limits, input: { size: 99_996 } })).frames).toEqual([1]);
    expect((await run(isolate, { limits, input: { size: 99_997 } })).error).toMatchObject({ code: "ISOLATE_OUTPUT" });
  });
});

describe("code that tries to leave", () => {
  test("reaches no network by any road, is told EGRESS_DENIED, and each attempt is a record", async () => {
    let connections = 0;
    const listener = createServer((socket) => (connections++, socket.destroy()));
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    const { port } = listener.address() as AddressInfo;
    const isolate = await isolateOf(
      processorBundle(
        `
        const target = "127.0.0.1:${port}";
        const tried = async (work) => { try { return await work(); } catch (error) { return "threw " + error.message; } };
        yield await tried(async () => { const r = await fetch("http://" + target + "/path?secret=1"); return r.status + " " + await r.text(); });
        yield await tried(async () => (await fetch("https://example.com/")).status);
        yield await tried(async () => { const socket = connect(target); await socket.opened; const { value, done } = await socket.readable.getReader().read(); return done ? "closed" : "got " + value; });
        yield await tried(() => new Promise((resolve, reject) => net.connect(${port}, "127.0.0.1").on("connect", () => resolve("connected")).on("error", reject).on("close", () => resolve("closed"))));
        yield await tried(() => new Promise((resolve, reject) => http.get("http://" + target, (r) => resolve(r.statusCode)).on("error", reject)));
        yield await tried(() => new Promise((resolve, reject) => dns.resolve4("example.com", (error, found) => error ? reject(error) : resolve(found))));
        yield await tried(() => new Promise((resolve) => { const ws = new WebSocket("ws://" + target); ws.onopen = () => resolve("open"); ws.onerror = () => resolve("refused"); ws.onclose = () => resolve("refused"); }));`,
        `import { connect } from "cloudflare:sockets"; import net from "node:net"; import http from "node:http"; import dns from "node:dns";`,
      ),
    );
    const { frames, logs } = await run(isolate);
    listener.close();
    expect(connections).toBe(0);
    expect(frames[0]).toBe(
      `403 EGRESS_DENIED: this project's code may not reach http://127.0.0.1:${port}; no network destination is allowed.`,
    );
    expect(frames[1]).toBe(403);
    expect(frames).toHaveLength(7);
    for (const frame of frames) expect(String(frame)).not.toMatch(/connected|open|^got|^200|\d+\.\d+\.\d+\.\d+$/);
    const denied = logs.filter(({ message }) => message.startsWith("EGRESS_DENIED"));
    expect(denied.length).toBeGreaterThanOrEqual(7);
    expect(denied.map(({ message }) => message).join()).not.toContain("secret");
  });

  test("finds no file, no environment, no process and no way to make code from text", async () => {
    const isolate = await isolateOf(
      processorBundle(
        `
        const tried = async (work) => { try { return await work(); } catch (error) { return "threw"; } };
        yield await tried(async () => Object.keys(process.env));
        yield await tried(async () => (await import("node:fs")).readFileSync("/etc/passwd", "utf8").length);
        yield await tried(async () => (await import("node:fs")).readdirSync("/").includes("etc"));
        yield await tried(async () => (await import("node:child_process")).execSync("id").toString());
        yield await tried(async () => eval("1"));
        yield await tried(async () => new Function("return 1")());
        yield Object.keys(env ?? {});`,
        `import { env } from "cloudflare:workers";`,
      ),
    );
    expect((await run(isolate)).frames).toEqual([[], "threw", expect.toBeOneOf(["threw", false]), "threw", "threw", "threw", []]);
  });

  test("runs in a process that is bounded, unprivileged, first to be killed for memory, and beside which no bundle lies", async () => {
    const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith("iterate-isolate-"));
    const before = new Set(folders());
    const isolate = await isolateOf(processorBundle("yield 1;"));
    const proc = (name: string) => readFileSync(`/proc/${isolate.pid}/${name}`, "utf8");
    expect(proc("status")).toMatch(/^NoNewPrivs:\s1$/m);
    expect(proc("oom_score_adj").trim()).toBe("1000");
    expect(proc("environ")).toBe("");
    expect(proc("limits")).toMatch(/^Max core file size +0 +0/m);
    expect(proc("limits")).toMatch(new RegExp(`^Max data size +${(540 + 384) * 2 ** 20} `, "m"));
    const folder = join(
      tmpdir(),
      folders().find((name) => !before.has(name) && readdirSync(join(tmpdir(), name)).includes("in"))!,
    );
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(readdirSync(folder).sort()).toEqual(["egress", "host", "in"]);
    await isolate.end();
    await eventually(() => expect(() => statSync(folder)).toThrow());
  });
});
