import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { LogRecord, Trace } from "../api/index.js";
import { codedError } from "../lib/index.js";
import { MemoryDeployment } from "../node/memory-deployment.fixture.js";
import { eventLine, printable, table } from "./output.js";
import { reconnectLadderMs } from "./follow.js";
import { runCommandLine } from "./program.js";
import type { Surroundings } from "./surroundings.js";
import { committedEvent } from "../stream/test-support.js";

const deployment = new MemoryDeployment();
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "iterate-cli-"));
});
afterAll(() => rmSync(folder, { recursive: true }));
beforeEach(() => deployment.start());
afterEach(async () => {
  await deployment.stop();
  deployment.projects.clear();
});

interface Run {
  out: string;
  err: string;
  readonly exitCode: Promise<number>;
  readonly pauses: number[];
  readonly interrupt: () => void;
}

function start(line: string | readonly string[], overrides: Partial<Surroundings> = {}): Run {
  const interruption = new AbortController();
  const run: { -readonly [Key in keyof Run]?: Run[Key] } & { out: string; err: string; pauses: number[] } = {
    out: "",
    err: "",
    pauses: [],
    interrupt: () => interruption.abort(),
  };
  run.exitCode = runCommandLine(typeof line === "string" ? line.split(" ") : line, "1.2.3", {
    env: { ITERATE_BASE_URL: deployment.baseUrl, ITERATE_ADMIN_TOKEN: deployment.secret },
    cwd: folder,
    print: async (text) => void (run.out += text),
    note: (text) => (run.err += text),
    readInput: async () => '{"from":"input"}',
    interruption: () => interruption.signal,
    nowMs: () => Date.UTC(2026, 0, 1, 12),
    pause: async (ms) => {
      run.pauses.push(ms);
      await new Promise((resolve) => setImmediate(resolve));
    },
    ...overrides,
  });
  return run as Run;
}

async function iterate(line: string | readonly string[], overrides: Partial<Surroundings> = {}) {
  const run = start(line, overrides);
  const exitCode = await run.exitCode;
  return { exitCode, out: run.out, err: run.err };
}

/** Settles when `isDone`, which the test makes true by an event it waits for; the test's own timeout bounds it. */
const until = async (isDone: () => boolean): Promise<void> => {
  while (!isDone()) await new Promise((resolve) => setImmediate(resolve));
};
const acme = () => iterate("projects create acme");

describe("archives", () => {
  const archive = '{"kind":"iterate-archive","version":1}\n{"of":"é"}\n';
  const read = (name: string): Buffer => readFileSync(join(folder, name));

  it("prints an export, or writes it to a file that is there only once it is complete", async () => {
    await iterate("projects create shop");
    expect(await iterate("export shop")).toEqual({ exitCode: 0, out: archive, err: "exported 2 contexts, 1,234 events\n" });
    expect(await iterate("export shop --out shop.jsonl")).toMatchObject({ exitCode: 0, out: "" });
    expect(read("shop.jsonl").toString()).toBe(archive);
    expect(await iterate("export shop --out shop.gz --json")).toEqual({
      exitCode: 0,
      out: '{"file":"shop.gz","contexts":2,"events":1234}\n',
      err: "",
    });
    expect(gunzipSync(read("shop.gz")).toString()).toBe(archive);
    for (const file of ["broken.jsonl", "broken.jsonl.gz"])
      expect(await iterate(`export shop --context /broken --out ${file}`)).toMatchObject({ exitCode: 4 });
    expect(readdirSync(folder).filter((name) => name.includes("broken") || name.includes("partial"))).toEqual([]);
    expect(await iterate("export shop --out nowhere/shop.jsonl")).toMatchObject({ exitCode: 2 });
  });

  it("tells its progress once a second", async () => {
    await iterate("projects create shop");
    let now = 0;
    const { err } = await iterate("export shop", { nowMs: () => (now += 600) });
    expect(err).toBe("exported 2 contexts, 1,234 events so far\nexported 2 contexts, 1,234 events\n");
  });

  it("imports a file, compressed or not, and refuses what exists unless told to replace it", async () => {
    writeFileSync(join(folder, "plain.jsonl"), archive);
    writeFileSync(join(folder, "packed"), gzipSync(archive));
    for (const file of ["plain.jsonl", "packed"]) {
      deployment.imported = "";
      expect(await iterate(`import ${file} --replace`)).toEqual({
        exitCode: 0,
        out: "imported imported (prj_imported)\n",
        err: "imported 2 contexts, 1,234 events\n",
      });
      expect(deployment.imported).toBe(archive);
    }
    expect(await iterate("import plain.jsonl")).toMatchObject({ exitCode: 1, err: expect.stringContaining("exists") as string });
    expect(await iterate("import plain.jsonl --slug other --json")).toMatchObject({ exitCode: 0 });
    writeFileSync(join(folder, "cut"), gzipSync(archive).subarray(0, 30));
    expect(await iterate("import cut --slug third")).toMatchObject({ exitCode: 1 });
    expect(await iterate("import absent")).toMatchObject({ exitCode: 2 });
  });
});

describe("admin", () => {
  it("declares the log restored", async () => {
    expect(await iterate("admin log-restored")).toEqual({
      exitCode: 0,
      out: "every context goes on 2^20 offsets above what its log holds (generation 2, 3)\n",
      err: "",
    });
    expect(await iterate("admin log-restored --json")).toMatchObject({ exitCode: 0, out: '{"generations":[2,3]}\n' });
  });
});

describe("projects", () => {
  it("creates one and says where it answers", async () => {
    const { exitCode, out } = await iterate("projects create acme --template triage");
    expect(exitCode).toBe(0);
    expect(out).toBe(
      `created acme (prj_acme)\npages  http://acme.test/\ngit    ${deployment.baseUrl}/git/acme/config.git?triage\n`,
    );
  });

  it("lists all of them, over pages, for people and for programs", async () => {
    expect((await iterate("projects list")).out).toContain("no projects yet");
    for (const slug of ["one", "two", "three", "four", "five"]) await iterate(`projects create ${slug}`);
    const { out } = await iterate("projects list");
    expect(out.split("\n").map((line) => line.split(" ")[0])).toEqual(["SLUG", "five", "four", "one", "three", "two", ""]);
    const parsed = JSON.parse((await iterate("projects list --json")).out) as { slug: string }[];
    expect(parsed.map(({ slug }) => slug)).toEqual(["five", "four", "one", "three", "two"]);
  });
});

describe("events", () => {
  beforeEach(acme);

  it("appends a payload from the line or from standard input, with key and metadata", async () => {
    expect(await iterate("events append order/placed --project acme")).toMatchObject({
      exitCode: 0,
      out: "     1  2000-01-01T00:00:01.000Z  order/placed\n",
    });
    const args = [
      "events",
      "append",
      "order/placed",
      '{"n":1}',
      "--project",
      "acme",
      "--context",
      "/orders",
      "--key",
      "k1",
      "--metadata",
      "[2]",
      "--json",
    ];
    const first = await iterate(args);
    expect(JSON.parse(first.out)).toMatchObject({
      offset: 1,
      path: "/orders",
      payload: { n: 1 },
      metadata: [2],
      idempotencyKey: "k1",
    });
    expect((await iterate(args)).out).toBe(first.out);
    expect((await iterate("events append order/placed - --project acme")).out).toContain('{"from":"input"}');
  });

  it.each([
    ["{", "is not JSON"],
    ['{"__proto__":1}', "cannot carry"],
    ['{"a":[{"constructor":1}]}', "cannot carry"],
    ['{"toJSON":1}', "cannot carry"],
  ])("refuses the payload %s before anything is sent", async (payload, message) => {
    const { exitCode, err } = await iterate(["events", "append", "t", payload, "--project", "acme"]);
    expect([exitCode, err]).toEqual([2, expect.stringContaining(message)]);
    expect(deployment.log("acme", "/").events).toEqual([]);
  });

  it("reads up to a limit and says how to go on", async () => {
    await deployment.append(
      "acme",
      "/",
      ...Array.from({ length: 5 }, (_, n) => ({ type: n % 2 === 0 ? "even" : "odd", payload: n })),
    );
    const read = await iterate("events read --project acme --limit 3");
    expect(read.out.split("\n").map((line) => line.trim().split("  ")[0])).toEqual(["1", "2", "3", ""]);
    expect(read.err).toBe("more events follow; go on with --after 3\n");
    const rest = await iterate("events read --project acme --after 3 --type even --type odd --json");
    expect(
      rest.out
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as { offset: number }).offset),
    ).toEqual([4, 5]);
    expect(rest.err).toBe("");
    expect((await iterate("events read --project acme --type even")).out.trim().split("\n")).toHaveLength(3);
  });

  it.each(["--limit 0", "--limit 1e3", "--after -1", "--after x", "--after 1.5"])("refuses %s", async (flag) => {
    expect(await iterate(`events read --project acme ${flag}`)).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining("must be a whole number") as string,
    });
  });

  it("tails from the head, and ends with 0 when interrupted", async () => {
    await deployment.append("acme", "/a", { type: "before" });
    const tail = start("events tail --project acme --context /a --json");
    await until(() => deployment.subscriptions === 1);
    await deployment.append("acme", "/a", { type: "after", payload: 1 });
    await until(() => tail.out !== "");
    tail.interrupt();
    expect(await tail.exitCode).toBe(0);
    expect(JSON.parse(tail.out)).toMatchObject({ offset: 2, type: "after" });
    await until(() => deployment.connections === 0);
  });

  it("appends ephemeral events, which are not stored, and tails them where they are asked for", async () => {
    const plain = start("events tail --project acme --json");
    const all = start("events tail --project acme --ephemeral --limit 3");
    await until(() => deployment.subscriptions === 2);
    await iterate("events append acme/opened --project acme");
    const appended = await iterate([
      "events",
      "append",
      "acme/progress-frame",
      '{"percent":40}',
      "--project",
      "acme",
      "--ephemeral",
    ]);
    expect(appended.out).toBe('     2  2000-01-01T00:00:02.000Z  acme/progress-frame  (ephemeral)  {"percent":40}\n');
    await iterate("events append acme/closed --project acme");
    expect(await all.exitCode).toBe(0);
    expect(all.out.split("\n").map((line) => line.trim().split("  ")[0])).toEqual(["1", "2", "3", ""]);
    await until(() => plain.out.split("\n").length === 3);
    expect(plain.out).not.toContain("frame");
    expect((await iterate("events read --project acme")).out).not.toContain("frame");
    plain.interrupt();
    expect(await plain.exitCode).toBe(0);
    const refused = await iterate("events append acme/progress-frame --project acme --ephemeral --key k");
    expect([refused.exitCode, refused.err]).toEqual([1, expect.stringContaining("idempotency key")]);
  });

  it.each([
    [1, ["1"]],
    [2, ["1", "2"]],
    [5, ["1", "2", "3", "4", "5"]],
  ])("tails %i events and ends", async (limit, offsets) => {
    await deployment.append("acme", "/", ...Array.from({ length: 5 }, (_, n) => ({ type: "t", payload: n })));
    const tail = start(`events tail --project acme --after 0 --limit ${limit}`);
    expect(await tail.exitCode).toBe(0);
    expect(
      tail.out
        .trim()
        .split("\n")
        .map((line) => line.trim().split("  ")[0]),
    ).toEqual(offsets);
    await until(() => deployment.connections === 0);
  });

  it("counts what it printed over a lost connection", async () => {
    const tail = start("events tail --project acme --after 0 --limit 3");
    await deployment.append("acme", "/", { type: "t" }, { type: "t" });
    await until(() => tail.out.split("\n").length === 3);
    deployment.cut();
    await deployment.append("acme", "/", { type: "t" }, { type: "t" });
    expect(await tail.exitCode).toBe(0);
    expect(tail.out.trim().split("\n")).toHaveLength(3);
  });

  it.each(["--limit 0", "--limit -1", "--limit x"])("refuses to tail %s", async (flag) => {
    expect(await iterate(`events tail --project acme ${flag}`)).toMatchObject({ exitCode: 2 });
  });

  it("goes on after a lost connection where it was, without gap or repetition", async () => {
    await deployment.append("acme", "/", { type: "t", payload: 1 }, { type: "t", payload: 2 });
    const tail = start("events tail --project acme --after 1 --json");
    const offsets = () =>
      tail.out
        .trim()
        .split("\n")
        .filter(Boolean)
        .map((line) => (JSON.parse(line) as { offset: number }).offset);
    await until(() => offsets().length === 1);
    await deployment.stop();
    await deployment.append("acme", "/", { type: "t", payload: 3 });
    await until(() => tail.pauses.length >= 3);
    await deployment.start();
    await until(() => offsets().length === 2);
    deployment.cut();
    await deployment.append("acme", "/", { type: "t", payload: 4 });
    await until(() => offsets().length === 3);
    tail.interrupt();
    expect(await tail.exitCode).toBe(0);
    expect(offsets()).toEqual([2, 3, 4]);
    expect(tail.pauses.slice(0, 3)).toEqual([250, 500, 1000]);
    expect(tail.pauses.at(-1)).toBe(250);
    expect(tail.err).toContain("trying in 0.25 s, after offset 2");
  });

  it("gives up at the end of its ladder, and at once when it never got through", async () => {
    const tail = start("events tail --project acme");
    await until(() => deployment.subscriptions === 1);
    await deployment.stop();
    expect(await tail.exitCode).toBe(4);
    expect(tail.pauses).toEqual(reconnectLadderMs);
    const never = start("events tail --project acme");
    expect(await never.exitCode).toBe(4);
    expect(never.pauses).toEqual([]);
    await deployment.start();
  });

  it("lets a slow reader take its frame before it goes on, so that nothing is printed twice", async () => {
    await deployment.append("acme", "/", { type: "t", payload: 1 }, { type: "t", payload: 2 }, { type: "t", payload: 3 });
    const slow = Promise.withResolvers<void>();
    const printed: number[] = [];
    const print = async (text: string): Promise<void> => {
      printed.push((JSON.parse(text) as { offset: number }).offset);
      if (printed.length === 1) await slow.promise;
    };
    const tail = start("events tail --project acme --after 0 --json", { print });
    await until(() => printed.length === 1);
    deployment.cut();
    await until(() => deployment.connections === 0);
    await new Promise((resolve) => setImmediate(resolve));
    expect(tail.pauses).toEqual([]);
    slow.resolve();
    await until(() => printed.length === 3);
    tail.interrupt();
    expect(await tail.exitCode).toBe(0);
    expect(printed).toEqual([1, 2, 3]);
  });

  it("ends when the platform ends the subscription for good", async () => {
    const tail = start("events tail --project acme");
    await until(() => deployment.subscriptions === 1);
    for (const end of deployment.endings) end(codedError("FORBIDDEN", "the token was revoked"));
    expect(await tail.exitCode).toBe(3);
    expect([tail.err, tail.pauses]).toEqual(["error: the token was revoked (FORBIDDEN)\n", []]);
  });

  it("does not try again what cannot succeed", async () => {
    const tail = start("events tail --project nobody");
    expect(await tail.exitCode).toBe(1);
    expect(tail.pauses).toEqual([]);
  });
});

describe("webhooks", () => {
  beforeEach(acme);

  it("prints the secret once, when it is made", async () => {
    const { out } = await iterate("webhooks create --project acme --provider github");
    expect(out).toBe(
      "url           http://hooks.test/main\nsecret        made-for-you-0000\ncontent type  application/json\ncontext       /integrations/github/main\ngive url and secret to github\n",
    );
    const list = await iterate("webhooks list --project acme");
    expect(list.out).toContain("github    main  /integrations/github/main  http://hooks.test/main");
    expect(list.out).not.toContain("made-for-you");
  });

  it("takes a secret from a file or standard input, and does not print it back", async () => {
    writeFileSync(join(folder, "secret"), "my-own-secret-0123\n");
    const { out } = await iterate("webhooks create --project acme --provider github --name a --secret-file secret");
    expect(out).not.toContain("my-own-secret");
    expect(
      JSON.parse((await iterate("webhooks create --project acme --provider github --name b --secret-file - --json")).out),
    ).toMatchObject({ name: "b", secret: '{"from":"input"}' });
    expect(await iterate("webhooks create --project acme --provider github --name c --secret-file missing")).toMatchObject({
      exitCode: 2,
    });
  });
});

describe("exit codes", () => {
  it.each([
    ["the version", "--version", 0, /^1\.2\.3\n$/],
    ["help", "events --help", 0, /append \[options\] <type>/],
  ])("0 for %s", async (_name, line, exitCode, out) => {
    expect(await iterate(line)).toEqual({ exitCode, out: expect.stringMatching(out) as string, err: "" });
  });

  it.each([
    ["nothing", []],
    ["an unknown command", ["deploy"]],
    ["an unknown flag", ["projects", "list", "--loud"]],
    ["a missing project", ["events", "read"]],
    ["a template that is none", ["projects", "create", "a", "--template", "huge"]],
    ["a token file that is missing", ["projects", "list", "--token-file", "nowhere"]],
  ])("2 for %s, with a word on it", async (_name, line) => {
    const { exitCode, out, err } = await iterate(line);
    expect([exitCode, out]).toEqual([2, ""]);
    expect(err).not.toBe("");
  });

  it("1 for what the platform refuses, with its code, and as JSON when asked", async () => {
    await acme();
    expect(await iterate("projects create acme")).toEqual({
      exitCode: 1,
      out: "",
      err: 'error: the slug "acme" is taken (PROJECT_NAME_TAKEN)\nhint: `iterate projects list` shows the names in use\n',
    });
    const { err } = await iterate("projects create acme --json");
    expect(JSON.parse(err)).toEqual({
      error: { code: "PROJECT_NAME_TAKEN", message: 'the slug "acme" is taken', data: { slug: "acme" } },
    });
  });

  it("3 for a wrong token and for none, never showing it", async () => {
    const wrong = await iterate("projects list", { env: { ITERATE_BASE_URL: deployment.baseUrl, ITERATE_ADMIN_TOKEN: "hunter2" } });
    expect(wrong).toMatchObject({ exitCode: 3, err: expect.stringContaining("INVALID_CREDENTIALS") as string });
    expect(wrong.err).not.toContain("hunter2");
    expect(await iterate("projects list", { env: {}, cwd: "/" })).toMatchObject({
      exitCode: 3,
      err: expect.stringContaining("set ITERATE_ADMIN_TOKEN") as string,
    });
  });

  it("4 when nothing answers", async () => {
    await deployment.stop();
    expect(await iterate("projects list")).toMatchObject({
      exitCode: 4,
      err: expect.stringMatching(/ECONNREFUSED.*is the platform running there\?.*\nhint: --base-url/) as string,
    });
    await deployment.start();
  });
});

describe("logs", () => {
  const record = (n: number, context = "/"): LogRecord => ({
    at: new Date(Date.UTC(2026, 0, 1, 11, 55, n)).toISOString(),
    severity: n % 2 === 0 ? "info" : "error",
    body: `line ${n}`,
    service: "runner",
    attributes: { owner: "prj_acme", context, n },
  });
  const records = () => deployment.projects.get("acme")!.records;
  beforeEach(acme);

  it("prints all pages, oldest first, for people and for programs", async () => {
    records().push(record(1), record(2), record(3), record(4), record(5, "/orders"));
    const { out, exitCode } = await iterate("logs --project acme");
    expect(exitCode).toBe(0);
    expect(out.split("\n").map((line) => /line \d/.exec(line)?.[0])).toEqual([
      "line 1",
      "line 2",
      "line 3",
      "line 4",
      "line 5",
      undefined,
    ]);
    expect(out.split("\n")[4]).toBe("2026-01-01T11:55:05.000Z  error  runner  line 5  context=/orders n=5");
    expect(JSON.parse((await iterate("logs --project acme --context /orders --json")).out)).toEqual(record(5, "/orders"));
  });

  it.each([
    ["4m58s", 2, undefined],
    ["298s", 0, ["line 2", "line 3"]],
    ["4m", 0, []],
    ["2026-01-01T11:55:03Z", 0, ["line 3"]],
    ["yesterday", 2, undefined],
  ])("reads since %s: exit code %i, %j", async (since, exitCode, lines) => {
    records().push(record(1), record(2), record(3));
    const result = await iterate(["logs", "--project", "acme", "--since", since]);
    expect(result.exitCode).toBe(exitCode);
    if (lines !== undefined) expect(result.out.match(/line \d/g) ?? []).toEqual(lines);
    else expect(result.err).toContain("neither an age such as 10m");
  });

  it("says when there is nothing", async () => {
    expect(await iterate("logs --project acme")).toMatchObject({
      exitCode: 0,
      out: "",
      err: expect.stringContaining("since 2026-01-01T11:50") as string,
    });
    expect((await iterate("logs --project acme --json")).err).toBe("");
  });

  it("follows what is written, over a lost connection too, until interrupted", async () => {
    records().push(record(1));
    const run = start("logs --project acme --follow");
    await until(() => run.out.includes("line 1"));
    deployment.logFailures.push(codedError("UNAVAILABLE", "telemetry is away"));
    await until(() => run.err.includes("telemetry is away; trying in 0.25 s"));
    deployment.cut();
    records().push(record(2), record(3));
    await until(() => run.out.includes("line 3"));
    run.interrupt();
    expect(await run.exitCode).toBe(0);
    expect(run.out.match(/line \d/g)).toEqual(["line 1", "line 2", "line 3"]);
  });

  it("does not wait for a deployment that fails at first, or refuses", async () => {
    deployment.logFailures.push(codedError("UNAVAILABLE", "telemetry is away"));
    expect((await iterate("logs --project acme --follow")).exitCode).toBe(4);
    expect((await iterate("logs --project nobody --follow")).exitCode).toBe(1);
  });
});

describe("trace", () => {
  const trace = (traceId: string): Trace => ({
    traceId,
    spans: [],
    linkedFrom: [{ traceId: "t2", spanId: "s" }],
    truncated: false,
  });
  beforeEach(async () => {
    await acme();
    deployment.traces.set("t1", { slug: "acme", trace: trace("t1") });
    deployment.traces.set("/orders@12", { slug: "acme", trace: trace("t9") });
    deployment.traces.set("other", { slug: "else", trace: trace("other") });
  });
  afterEach(() => deployment.traces.clear());

  it.each([
    ["trace t1", "t1"],
    ["trace other", "other"],
    ["trace t1 --project acme", "t1"],
    ["trace --event acme /orders 12", "t9"],
  ])("`%s` prints it as a tree or as JSON", async (line, id) => {
    expect(await iterate(line)).toMatchObject({ exitCode: 0, out: `trace ${id}  no span of it is kept\ncaused trace t2\n` });
    expect(JSON.parse((await iterate(`${line} --json`)).out)).toEqual(trace(id));
  });

  it.each([
    ["trace", 2],
    ["trace t1 --event acme / 1", 2],
    ["trace --event acme /", 2],
    ["trace --event acme / 1 2", 2],
    ["trace --event acme / 0", 2],
    ["trace other --project acme", 1],
    ["trace nothing", 1],
  ])("`%s` fails with %i", async (line, exitCode) => {
    expect((await iterate(line)).exitCode).toBe(exitCode);
  });
});

describe("the token", () => {
  it("comes from the flag, else the variable, else the nearest stack above", async () => {
    const inside = join(folder, "stack", "deep", "er");
    mkdirSync(join(folder, "stack", ".iterate"), { recursive: true });
    mkdirSync(inside, { recursive: true });
    const stackToken = join(folder, "stack", ".iterate", "admin-token");
    const env = { ITERATE_BASE_URL: deployment.baseUrl };

    writeFileSync(stackToken, `${deployment.secret}\n`);
    expect((await iterate("projects list", { env, cwd: inside })).exitCode).toBe(0);
    expect((await iterate("projects list", { env: { ...env, ITERATE_ADMIN_TOKEN: "wrong" }, cwd: inside })).exitCode).toBe(3);
    expect(
      (
        await iterate("projects list --token-file ../../.iterate/admin-token", {
          env: { ...env, ITERATE_ADMIN_TOKEN: "wrong" },
          cwd: inside,
        })
      ).exitCode,
    ).toBe(0);
    writeFileSync(stackToken, "\n");
    expect(await iterate(`projects list --token-file ${stackToken}`, { env })).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining("is empty") as string,
    });
  });
});

describe("output", () => {
  it("lets no event move the cursor or turn the line around", () => {
    const line = eventLine(committedEvent({ type: "a\u001b[2J\u009b\u202e", payload: { text: "\u001b]0;x\u0007\u2028é" } }));
    expect(line).toBe('     1  2000-01-01T00:00:01.000Z  a\\u001b[2J\\u009b\\u202e  {"text":"\\u001b]0;x\\u0007\\u2028é"}\n');
    expect(printable("plain – text")).toBe("plain – text");
  });

  it("cuts a long payload on a line for people", () => {
    expect(eventLine(committedEvent({ type: "t", payload: "x".repeat(158) }))).not.toContain("…");
    expect(eventLine(committedEvent({ type: "t", payload: "x".repeat(159) }))).toMatch(/x…\n$/);
  });

  it("lines columns up", () => {
    expect(
      table(
        ["A", "LONG"],
        [
          ["one", "two"],
          ["a\nb", "c"],
        ],
      ),
    ).toBe("A         LONG\none       two\na\\u000ab  c\n");
  });
});

describe("the process", () => {
  const main = fileURLToPath(new URL("./main.ts", import.meta.url));
  const launch = (...args: string[]) =>
    spawn(process.execPath, ["--conditions=iterate-source", "--import", "tsx", main, ...args], {
      env: { PATH: process.env["PATH"], ITERATE_BASE_URL: deployment.baseUrl, ITERATE_ADMIN_TOKEN: deployment.secret },
      stdio: ["pipe", "pipe", "inherit"],
    });

  it("reads standard input, exits with the code, and ends a tail on SIGINT", async () => {
    await acme();
    const append = launch("events", "append", "t", "-", "--project", "acme");
    append.stdin.end('{"n":7}');
    expect(await once(append, "exit")).toEqual([0, null]);
    expect(deployment.log("acme", "/").events).toMatchObject([{ payload: { n: 7 } }]);

    const tail = launch("events", "tail", "--project", "acme", "--after", "0");
    const [shown] = (await once(tail.stdout, "data")) as [Buffer];
    expect(shown.toString()).toContain('{"n":7}');
    tail.kill("SIGINT");
    expect(await once(tail, "exit")).toEqual([0, null]);

    const refused = launch("projects", "create", "acme");
    expect(await once(refused, "exit")).toEqual([1, null]);
  });

  it("ends quietly when its reader has seen enough", async () => {
    await acme();
    await deployment.append("acme", "/", ...Array.from({ length: 1000 }, () => ({ type: "t", payload: "x".repeat(500) })));
    const read = launch("events", "read", "--project", "acme", "--limit", "1000", "--json");
    await once(read.stdout, "data");
    read.stdout.destroy();
    expect(await once(read, "exit")).toEqual([0, null]);
  });
});

describe("calls", () => {
  const on = (...args: string[]): string[] => [...args, "--project", "acme", "--context", "/a"];

  it("prints what an expression answers, indented or as one line of JSON; nothing for nothing", async () => {
    await acme();
    const value = { path: "/a", called: 'itx.kv.get("k")', args: [] };
    expect(await iterate(on("invoke", "itx.kv.get('k')"))).toEqual({
      exitCode: 0,
      out: `${JSON.stringify(value, null, 2)}\n`,
      err: "",
    });
    expect((await iterate(on("invoke", "itx.kv.get('k')", "--json"))).out).toBe(`${JSON.stringify(value)}\n`);
    expect(await iterate(on("invoke", "itx.nothing()"))).toEqual({ exitCode: 0, out: "", err: "" });
  });

  it("prints a stream item by item until it ends", async () => {
    await acme();
    expect((await iterate(on("invoke", "itx.streamEvents()", "--json"))).out).toBe('{"at":1}\n{"at":2}\n');
  });

  it("describes in words that cannot move the cursor, or as JSON", async () => {
    await acme();
    expect((await iterate(on("describe"))).out).toBe("itx at /a: Something.\n\\u001b[31mred\n");
    expect(JSON.parse((await iterate(on("describe", "itx.kv", "--json"))).out)).toMatchObject({
      expression: "itx.kv",
      state: "bound",
    });
    expect(await iterate(on("describe", "itx.nothing"))).toMatchObject({ exitCode: 1, out: "" });
  });

  it("takes a slip in an expression for one of usage, and asks the deployment nothing", async () => {
    for (const command of ["invoke", "describe"])
      expect(await iterate(on(command, "itx."))).toMatchObject({
        exitCode: 2,
        err: expect.stringContaining("expression") as string,
      });
  });
});

describe("explain", () => {
  const on = (...args: string[]): string[] => ["explain", ...args, "--project", "acme", "--context", "/a"];

  it("says how each thing stands, in words that cannot move the cursor", async () => {
    await acme();
    expect(await iterate(on("event", "7"))).toEqual({
      exitCode: 0,
      out: [
        "event 7 of /a: not done (the head is at offset 9)",
        '  retrying  subscription "counter": attempt 1 failed\\u001b[31m: no',
        "            due 2030-01-01T09:00:00.000Z, owner runner-1",
        '  done      subscription "other": it has been delivered through offset 7',
        "",
      ].join("\n"),
      err: "",
    });
    expect((await iterate(on("schedule", "daily"))).out).toContain("schedule daily of /a: done");
    expect((await iterate(on("run", "7"))).out).toContain("  runner did not answer: what hangs on it is unknown\n");
    expect(JSON.parse((await iterate(on("event", "7", "--json"))).out)).toMatchObject({ done: false, headOffset: 9 });
  });

  it("names what is not there", async () => {
    await acme();
    expect(await iterate(on("subscription", "nobody"))).toMatchObject({
      exitCode: 1,
      out: "",
      err: expect.stringContaining("no subscription nobody") as string,
    });
  });

  it.each([
    ["limit", "x"],
    ["event", "first"],
    ["event", "0"],
    ["run", "1.5"],
    ["run", "9007199254740992"],
  ])("takes %s %s for a slip, and asks the deployment nothing", async (what, which) => {
    expect(await iterate(on(what, which))).toMatchObject({ exitCode: 2, out: "" });
  });
});

describe("schedules", () => {
  const on = (...args: string[]): string[] => ["schedules", ...args, "--project", "acme", "--context", "/due"];

  it("are set, listed and cancelled", async () => {
    await acme();
    expect((await iterate(on("list"))).out).toBe("no schedules yet; set one with `iterate schedules set`\n");
    expect(
      (await iterate(on("set", "daily", "acme/report-due", '{"n":1}', "--cron", "0 9 * * MON-FRI", "--zone", "Europe/London"))).out,
    ).toBe("schedule  daily\noffset    2\n");
    expect((await iterate(on("set", "tick", "acme/tick", "--every", "90s", "--json"))).out).toBe(
      '{"key":"tick","scheduledAtOffset":3}\n',
    );
    expect((await iterate(on("list"))).out).toBe(
      [
        "KEY    WHEN                           NEXT                      EVENTS           OFFSET",
        "daily  0 9 * * MON-FRI Europe/London  2030-01-01T09:00:00.000Z  acme/report-due  2",
        "tick   every 90 s                     2030-01-01T09:00:00.000Z  acme/tick        3",
        "",
      ].join("\n"),
    );
    expect(JSON.parse((await iterate(on("list", "--json"))).out)).toMatchObject([
      {
        key: "daily",
        when: { cron: "0 9 * * MON-FRI", timeZone: "Europe/London" },
        events: [{ type: "acme/report-due", payload: { n: 1 } }],
      },
      { key: "tick", when: { everyMs: 90_000 } },
    ]);
    expect((await iterate(on("cancel", "daily", "--if-offset", "1"))).out).toBe("there is no such schedule\n");
    expect((await iterate(on("cancel", "daily"))).out).toBe("cancelled\n");
  });

  it.each([
    [["set", "k", "a/b"], "exactly one of"],
    [["set", "k", "a/b", "--after", "1m", "--every", "1m"], "exactly one of"],
    [["set", "k", "a/b", "--after", "soon"], "no duration"],
    [["set", "k", "a/b", "--every", "1m", "--zone", "UTC"], "belong to --cron"],
    [["set", "k", "a/b", "--cron", "* * * * *", "--catch-up", "all"], "belong together"],
    [["set", "k", "a/b", "{", "--after", "1m"], "is not JSON"],
  ])("takes %j for a slip of usage", async (args, words) => {
    expect(await iterate(on(...args))).toMatchObject({ exitCode: 2, err: expect.stringContaining(words) as string });
  });
});
