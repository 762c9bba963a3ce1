/** What the command line says when what was typed is not quite what was meant. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { MemoryDeployment } from "../node/memory-deployment.fixture.js";
import { runCommandLine } from "./program.js";

const deployment = new MemoryDeployment();
beforeAll(() => deployment.start());
afterAll(() => deployment.stop());
beforeEach(() => iterate("projects create acme"));
afterEach(() => deployment.projects.clear());

interface Options {
  readonly interruption?: AbortSignal;
  readonly baseUrl?: string;
  readonly onNote?: (text: string) => void;
}

async function iterate(line: string | readonly string[], { interruption, baseUrl, onNote }: Options = {}) {
  let out = "";
  let err = "";
  const exitCode = await runCommandLine(typeof line === "string" ? line.split(" ") : line, "1.2.3", {
    env: { ITERATE_BASE_URL: baseUrl ?? deployment.baseUrl, ITERATE_ADMIN_TOKEN: deployment.secret },
    cwd: "/",
    print: async (text) => void (out += text),
    note: (text) => {
      err += text;
      onNote?.(text);
    },
    readInput: async () => "",
    interruption: () => interruption ?? new AbortController().signal,
    nowMs: () => 0,
    pause: async () => undefined,
  });
  return { exitCode, out, err };
}

describe("a context that is not there", () => {
  const unborn = "there is no context /nope in this project yet; the first append to it makes it\n";

  it("is said to be by a read", async () => {
    expect(await iterate("events read --project acme --context nope")).toEqual({ exitCode: 0, out: "", err: unborn });
  });

  it("is said to be by a tail, which waits for it", async () => {
    const interruption = new AbortController();
    const tail = iterate("events tail --project acme --context /nope", {
      interruption: interruption.signal,
      onNote: () => interruption.abort(),
    });
    expect(await tail).toEqual({ exitCode: 0, out: "", err: unborn });
  });

  it("is not claimed of one that holds no event of the type", async () => {
    await deployment.append("acme", "/here", { type: "a" });
    expect(await iterate("events read --project acme --context /here --type b")).toEqual({ exitCode: 0, out: "", err: "" });
  });
});

describe("a type that is mistyped", () => {
  it.each([
    ["events.iterate.com/itx/pausd", 'did you mean "events.iterate.com/itx/paused"?'],
    ["itx/paused", 'that is "events.iterate.com/itx/paused"'],
  ])("%s is noted", async (type, words) => {
    await deployment.append("acme", "/", { type: "a" });
    const { exitCode, err } = await iterate(`events read --project acme --type ${type}`);
    expect([exitCode, err]).toEqual([0, expect.stringContaining(words)]);
  });

  it("with white space in it is refused before anything is sent", async () => {
    const { exitCode, err } = await iterate(["events", "append", "order/placed {}", "--project", "acme"]);
    expect([exitCode, err]).toEqual([2, expect.stringContaining("white space")]);
    expect(deployment.log("acme", "/").events).toEqual([]);
  });
});

it("says below a halt how it is resumed", async () => {
  const payload = { name: "triage", afterOffset: 3, attempts: 1, error: { code: "PERMANENT_FAILURE", message: "never" } };
  await deployment.append("acme", "/a", { type: "events.iterate.com/itx/subscription-delivery-halted", payload });
  const { out } = await iterate("events read --project acme --context a");
  expect(out.split("\n").at(-2)).toBe(
    `        | once it is mended: iterate events append events.iterate.com/itx/subscription-delivery-resumed '{"name":"triage"}' --project acme --context /a`,
  );
  expect((await iterate("events read --project acme --context a --json")).out).not.toContain("once it is mended");
});

it("takes a context without its first slash everywhere", async () => {
  await iterate("events append a --project acme --context orders");
  expect(deployment.log("acme", "/orders").events).toHaveLength(1);
  const attributes = { owner: "prj_acme", context: "/orders" };
  deployment.projects.get("acme")!.records.push({
    at: "1970-01-01T00:00:00.000Z",
    severity: "info",
    body: "line",
    service: "runner",
    attributes,
  });
  expect((await iterate("logs --project acme --context orders")).out).toContain("line");
});

describe("the exit code", () => {
  it("of help is 0", async () => {
    const { exitCode, out } = await iterate("help");
    expect([exitCode, out]).toEqual([0, expect.stringContaining("Usage: iterate")]);
    expect((await iterate("help events")).exitCode).toBe(0);
  });

  it.each(["localhost:7400", "ftp://localhost", "nonsense"])("of the base URL %s is 2", async (baseUrl) => {
    const { exitCode, err } = await iterate("projects list", { baseUrl });
    expect([exitCode, err]).toEqual([2, expect.stringContaining("must be an http or https address")]);
  });
});

it("shows in help what must be given, and where a tail begins", async () => {
  const { out } = await iterate("events tail --help");
  expect(out.replace(/\s+/g, " ")).toContain("slug or id of the project (required)");
  expect(out.replace(/\s+/g, " ")).toContain("from now on (--after 0: from the beginning)");
});

it("says how a trace is named when none is", async () => {
  expect((await iterate("trace")).err).toContain("iterate trace --event <project> <context> <offset>");
});
