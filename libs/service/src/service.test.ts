import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { startNats, useTestDatabase } from "@iterate-platform/testing";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createClient } from "./grpc-client.js";
import { EchoClient } from "./grpc-echo.fixture.js";
import { generateKeys, Trust } from "./trust.js";

const fixture = fileURLToPath(new URL("./service.fixture.ts", import.meta.url));
const database = useTestDatabase();
let directory: string;
let keys: Record<string, string>;
let caller: Trust;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "service-"));
  const files = await generateKeys({ directory, services: ["echo", "caller"] });
  keys = { ITERATE_TRUSTED_KEYS_FILE: files.trustedKeysFile, ITERATE_SERVICE_KEY_FILE: files.keyFile("echo") };
  caller = await Trust.load({ service: "caller", keyFile: files.keyFile("caller"), trustedKeysFile: files.trustedKeysFile });
});
afterAll(() => rm(directory, { recursive: true }));

interface Line {
  readonly message: string;
  readonly level: string;
  readonly ports?: Record<string, number>;
  readonly error?: { message: string };
}

class Child {
  readonly lines: Line[] = [];
  readonly #process: ChildProcess;
  readonly exited: Promise<number | string>;
  stdout = "";
  #changed = Promise.withResolvers<void>();

  constructor(args: string[], env: Record<string, string>) {
    this.#process = spawn(process.execPath, ["--conditions=iterate-source", "--import", "tsx", fixture, ...args], {
      env: { PATH: process.env["PATH"]!, NODE_NO_WARNINGS: "1", ADMIN_LISTEN: "127.0.0.1:0", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process.stdout!.on("data", (chunk) => (this.stdout += String(chunk)));
    createInterface(this.#process.stderr!).on("line", (line) => {
      this.lines.push(line.startsWith("{") ? (JSON.parse(line) as Line) : { message: line, level: "raw" });
      this.#wake();
    });
    this.exited = once(this.#process, "close").then(([code, signal]) => {
      this.#wake();
      return (code ?? signal) as number | string;
    });
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }

  /** The first line with this message; fails when the process ends without it. */
  async line(message: string): Promise<Line> {
    for (;;) {
      const found = this.lines.find((line) => line.message.startsWith(message));
      if (found !== undefined) return found;
      if (this.#process.exitCode !== null) throw new Error(`no line ${JSON.stringify(message)} in ${JSON.stringify(this.lines)}`);
      await this.#changed.promise;
    }
  }

  messages(): string[] {
    return this.lines.map((line) => line.message);
  }

  kill(): void {
    if (this.#process.exitCode === null) this.#process.kill("SIGKILL");
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

const children: Child[] = [];
const run = (env: Record<string, string> = {}, ...args: string[]): Child => {
  const child = new Child(args, { ...keys, ...env });
  children.push(child);
  return child;
};
afterEach(async () => {
  for (const child of children) child.kill();
  await Promise.all(children.splice(0).map((child) => child.exited));
});

async function served(child: Child) {
  const { ports } = await child.line("serving");
  const client = createClient(EchoClient, `127.0.0.1:${ports!["grpc"]}`, { trust: caller, audience: "echo" });
  return { client, admin: `http://127.0.0.1:${ports!["admin"]}`, http: `http://127.0.0.1:${ports!["http"]}` };
}

describe("a service", () => {
  test("serves gRPC, HTTP, probes and metrics, and ends in order at SIGTERM with code 0", async () => {
    const child = run();
    const { client, admin, http } = await served(child);
    expect(await client.unary({ text: "hi" })).toEqual({ text: "hi by caller" });
    expect(await (await fetch(http)).text()).toBe("hello");
    expect((await fetch(`${admin}/livez`)).status).toBe(200);
    expect(await (await fetch(`${admin}/readyz`)).json()).toEqual({ ready: true, problems: [] });
    const metrics = await (await fetch(`${admin}/metrics`)).text();
    expect(metrics).toMatch(
      /rpc_server_call_duration_seconds_count\{rpc_method="iterate\.test\.v1\.EchoService\/Unary",code="OK"\} 1/,
    );
    expect(metrics).toMatch(/^process_memory_usage_bytes\{kind="rss"\} \d+/m);
    const open = client.unary({ text: "until-stopping" });
    await expect.poll(async () => (await (await fetch(`${admin}/metrics`)).text()).includes("rpc_server_calls_open 1")).toBe(true);
    child.signal("SIGTERM");
    expect(await open).toEqual({ text: "until-stopping by caller" });
    expect(await child.exited).toBe(0);
    expect(child.messages().filter((message) => /^(loops|step|stop)/.test(message))).toEqual([
      "stopping",
      "loops told",
      "step second",
      "step first",
      "stopped",
    ]);
    client.close();
  });

  test("is cut at its bound when a call and a step do not end, and says so with code 1", async () => {
    const child = run({ SCENARIO: "stuck", DRAIN_MS: "600" });
    const { client } = await served(child);
    const stuck = client.unary({ text: "stuck" }).catch((error: unknown) => error);
    await client.unary({ text: "reached" });
    const startedAt = performance.now();
    child.signal("SIGINT");
    expect(await stuck).toMatchObject({ code: "UNAVAILABLE" });
    expect(await child.exited).toBe(1);
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    expect(child.messages()).toEqual(
      expect.arrayContaining(["stopping grpc did not end well", "stopping second did not end well", "step first"]),
    );
    client.close();
  });

  test("stops the rest when one step fails", async () => {
    const child = run({ SCENARIO: "bad-stop" });
    await served(child);
    child.signal("SIGTERM");
    expect(await child.exited).toBe(1);
    expect(child.messages()).toEqual(expect.arrayContaining(["stopping second did not end well", "step first", "stopped"]));
  });

  test("ends at once at a second signal", async () => {
    const child = run({ SCENARIO: "stuck", DRAIN_MS: "60000" });
    await served(child);
    child.signal("SIGTERM");
    await child.line("loops told");
    child.signal("SIGTERM");
    expect(await child.exited).toBe(1);
    await child.line("ended at once");
  });

  test("ends in order at a signal that comes while it starts", async () => {
    const child = run({ SCENARIO: "slow-start" });
    await child.line("composing");
    child.signal("SIGTERM");
    expect(await child.exited).toBe(0);
    expect(child.messages()).toEqual(["composing", "stopping", "stopped"]);
  });

  test("is not ready while a loop is late", async () => {
    const child = run({ SCENARIO: "stalled-loop" });
    const { admin } = await served(child);
    await expect.poll(async () => (await fetch(`${admin}/readyz`)).status).toBe(503);
    const { problems } = (await (await fetch(`${admin}/readyz`)).json()) as { problems: string[] };
    expect(problems).toEqual([expect.stringMatching(/^stalled made no progress for \d+ ms, its bound is 50 ms$/)]);
    expect((await fetch(`${admin}/livez`)).status).toBe(200);
  });
});

describe("what goes wrong", () => {
  test.each([
    ["throws", "echo cannot start", "main threw"],
    ["rejects", "a rejection was not handled; the process ends", "nobody handles this"],
  ])("when main %s is logged and ends the process", async (scenario, message, reason) => {
    const child = run({ SCENARIO: scenario });
    expect(await child.exited).toBe(1);
    expect(child.lines.find((line) => line.message === message)).toMatchObject({ level: "error", error: { message: reason } });
  });

  test("uncaught in a callback is logged and ends the process", async () => {
    const child = run();
    const { client } = await served(child);
    await client.unary({ text: "uncaught" }).catch(() => {});
    expect(await child.exited).toBe(1);
    expect(child.lines.at(-1)).toMatchObject({ level: "error", error: { message: "thrown past everyone" } });
    client.close();
  });

  test.each(["ADMIN_LISTEN", "GRPC_LISTEN"])("with a busy port names %s", async (variable) => {
    const busy = createServer().listen(0, "127.0.0.1");
    await once(busy, "listening");
    const child = run({ [variable]: `127.0.0.1:${(busy.address() as { port: number }).port}` });
    expect(await child.exited).toBe(1);
    expect(child.messages().at(-1)).toContain(`cannot listen on ${variable}=127.0.0.1:`);
    busy.close();
  });

  test("with the environment is said all at once, by variable, without a secret", async () => {
    const child = run({
      SCENARIO: "odd",
      GRPC_LISTEN: "nowhere",
      ITERATE_TRUSTED_KEYS_FILE: "",
      DATABASE_URL: "mysql://u:hunter2@h/d",
    });
    expect(await child.exited).toBe(1);
    const message = child.messages().at(-1)!;
    for (const variable of ["SCENARIO", "GRPC_LISTEN", "ITERATE_TRUSTED_KEYS_FILE", "DATABASE_URL"])
      expect(message).toContain(variable);
    expect(JSON.stringify(child.lines)).not.toContain("hunter2");
  });

  test("with the command is said", async () => {
    const child = run({}, "sevre");
    expect(await child.exited).toBe(2);
    expect(child.messages().at(-1)).toContain('unknown command "sevre"');
  });
});

describe("the same binary", () => {
  test("prints its variables and needs none for it", async () => {
    const child = run({ ITERATE_TRUSTED_KEYS_FILE: "" }, "--print-config-docs");
    expect(await child.exited).toBe(0);
    expect(child.stdout).toMatch(/^\| variable \| value \| default \| meaning \|\n/);
    for (const variable of ["GRPC_LISTEN", "SCENARIO", "ITERATE_SERVICE_KEY_FILE", "DRAIN_MS"])
      expect(child.stdout).toContain(`\`${variable}\``);
    expect(child.stdout).not.toContain("NATS_URL");
  });

  test("migrates its schema, needing its database alone, and serves on it", async () => {
    const migrations = await mkdtemp(join(directory, "migrations-"));
    await writeFile(join(migrations, "0001_note.sql"), "create table note (text text not null);");
    const env = { DATABASE_URL: database.url, MIGRATIONS: migrations };
    const migration = run({ ...env, ITERATE_TRUSTED_KEYS_FILE: "", ITERATE_SERVICE_KEY_FILE: "" }, "migrate");
    expect([await migration.exited, migration.messages()]).toEqual([0, expect.arrayContaining(["the schema is migrated"])]);
    const again = run(env, "migrate");
    expect([await again.exited, again.messages()]).toEqual([0, ["the schema is up to date"]]);
    const client = new pg.Client(database.url);
    await client.connect();
    await client.query("select text from note");
    await client.end();
  });

  test("opens pool and broker, starts without either, and closes both", async () => {
    const nats = await startNats();
    const child = run({ DATABASE_URL: database.url, NATS_URL: nats.url });
    const { admin } = await served(child);
    await expect
      .poll(async () => (await (await fetch(`${admin}/metrics`)).text()).includes("iterate_broker_connected 1"))
      .toBe(true);
    expect((await fetch(`${admin}/readyz`)).status).toBe(200);
    child.signal("SIGTERM");
    expect(await child.exited).toBe(0);
    await nats.stop();

    const alone = run({ DATABASE_URL: "postgres://u:p@127.0.0.1:1/none", NATS_URL: "nats://127.0.0.1:1" });
    await served(alone);
    await alone.line("the database does not answer");
    alone.signal("SIGTERM");
    expect(await alone.exited).toBe(0);
  });
});
