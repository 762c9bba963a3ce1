import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@iterate-platform/testing";
import { isPortTaken } from "@iterate-platform/testing/free-port";
import { TiedChild } from "@iterate-platform/testing/child";
import { connect } from "@nats-io/transport-node";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { Ports } from "./ports.js";
import { serviceRows, type ServiceRow } from "./services.js";
import type { Stack } from "./stack.js";
import { StackPortBusyError, startStack, type StackOptions } from "./stack.js";
import { StateHeldError } from "./state.js";

// A stand-in for a service's program: the stack is what is under test, and it only sees processes.
const program = `
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
const name = process.env.STAND_IN;
if (process.argv[2] === "migrate") {
  if (process.env.FAIL_MIGRATION) { console.error("migration refused"); process.exit(1); }
  appendFileSync(process.env.JOURNAL, name + " migrated\\n");
  process.exit(0);
}
const server = createServer((request, response) => {
  if (request.url === "/env") return response.end(JSON.stringify(process.env));
  response.end("ok");
});
const [host, port] = process.env.ADMIN_LISTEN.split(":");
server.listen(Number(port), host, () => appendFileSync(process.env.JOURNAL, name + " started\\n"));
process.on("SIGTERM", () => { appendFileSync(process.env.JOURNAL, name + " drained\\n"); process.exit(0); });
`;

let folder: string;
let journal: string;
const stacks: Stack[] = [];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "stand-in-"));
  chmodSync(folder, 0o755);
  journal = join(folder, "journal");
  mkdirSync(join(folder, "dist"));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(join(folder, "preload.mjs"), `process.env.PRELOADED = "yes";`);
  for (const file of ["main.js", "isolate-main.js", "worker-main.js"]) writeFileSync(join(folder, "dist", file), program);
});
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(async () => {
  await Promise.all(stacks.splice(0).map((stack) => stack.stop()));
});

type Names = readonly ServiceRow["name"][];

function rows(names: Names, variables: Record<string, string> = {}): ServiceRow[] {
  return serviceRows
    .filter(({ name }) => names.includes(name))
    .map((row) => ({
      ...row,
      ...(row.tracePreload === undefined ? {} : { tracePreload: join(folder, "preload.mjs") }),
      workspace: folder,
      variables: (surroundings) => ({ ...row.variables?.(surroundings), STAND_IN: row.name, JOURNAL: journal, ...variables }),
    }));
}

async function start(names: Names, options: StackOptions = {}): Promise<Stack> {
  writeFileSync(journal, "");
  const stack = await startStack({ state: "temporary", portBase: "auto", rows: rows(names), ...options });
  stacks.push(stack);
  return stack;
}

const journalLines = (): string[] => readFileSync(journal, "utf8").trim().split("\n");

async function environmentOf(stack: Stack, service: ServiceRow["name"]): Promise<Record<string, string>> {
  return (await (await fetch(`${stack.adminUrl(service)}/env`)).json()) as Record<string, string>;
}

describe("a whole stack", () => {
  const all: Names = ["context", "runner", "runner-isolate", "bundler", "build-worker", "ingress", "telemetry"];

  test("migrates before it starts, gives each service what its row says, and drains on stop", async () => {
    const stack = await start(all);
    const lines = journalLines();
    const databases = ["context", "runner", "bundler", "ingress", "telemetry"];
    expect(lines.slice(0, 5).sort()).toEqual(databases.map((name) => `${name} migrated`).sort());
    expect(lines.slice(5).sort()).toEqual(all.map((name) => `${name} started`).sort());

    const context = await environmentOf(stack, "context");
    expect(context["GRPC_LISTEN"]).toBe(`127.0.0.1:${stack.ports.of("context")}`);
    expect(context["RUNNER_URL"]).toBe(stack.url("runner"));
    expect(context["OTEL_EXPORTER_OTLP_ENDPOINT"]).toBe(stack.url("otlp-grpc"));
    expect(context["PRELOADED"]).toBe("yes");
    const client = new pg.Client(context["DATABASE_URL"]);
    await client.connect();
    expect((await client.query("select current_schema() as schema")).rows).toEqual([{ schema: "iterate_context" }]);
    await client.end();

    await stack.stop();
    expect(journalLines().slice(12).sort()).toEqual(all.map((name) => `${name} drained`).sort());
    for (const port of [stack.ports.of("postgres"), stack.ports.of("nats"), stack.ports.admin("context")]) {
      expect(await isPortTaken(port)).toBe(false);
    }
  });

  test("gives isolates and build workers no credential and no address of a database or broker", async () => {
    const stack = await start(["runner-isolate", "build-worker", "telemetry"]);
    for (const name of ["runner-isolate", "build-worker"] as const) {
      const given = Object.keys(await environmentOf(stack, name)).sort();
      const basics = ["PATH", "HOME", "TMPDIR", "LANG", "LOG_LEVEL", "STAND_IN", "JOURNAL"];
      const role = name === "runner-isolate" ? ["ISOLATE_TENANCY"] : [];
      const expected = ["ADMIN_LISTEN", "DRAIN_MS", "GRPC_LISTEN", "HTTP_LISTEN", ...role, "ITERATE_TRUSTED_KEYS_FILE"];
      expect(given.filter((key) => !basics.includes(key)).sort()).toEqual(expected.sort());
    }
  });

  test("lets each user of the broker say what its row allows and nothing else", async () => {
    const stack = await start(all);
    const subjects = [
      "ctx.0",
      "live.7",
      "lend.moved",
      "$SYS.REQ.SERVER.PING",
      "$JS.API.STREAM.DELETE.CTX",
      "$JS.API.STREAM.PURGE.CTX",
      "else",
    ];
    const allowed: Record<string, { publish: string[]; subscribe: string[] }> = {
      context: { publish: ["ctx.0", "live.7"], subscribe: ["ctx.0", "live.7", "lend.moved"] },
      runner: { publish: [], subscribe: ["ctx.0", "lend.moved"] },
      ingress: { publish: ["lend.moved"], subscribe: ["lend.moved"] },
      telemetry: { publish: [], subscribe: ["ctx.0"] },
    };
    for (const [service, { publish, subscribe }] of Object.entries(allowed)) {
      const { NATS_URL, NATS_USER, NATS_PASSWORD } = stack.brokerVariables(service as ServiceRow["name"]);
      const connection = await connect({
        servers: NATS_URL!,
        user: NATS_USER!,
        pass: NATS_PASSWORD!,
        inboxPrefix: `_INBOX.${service}`,
      });
      const refused: string[] = [];
      void (async () => {
        for await (const event of connection.status()) if (event.type === "error") refused.push(event.error.message);
      })();
      for (const subject of [...subjects, "_INBOX.context.x", "_INBOX.other.x"]) {
        connection.publish(subject, "");
        connection.subscribe(subject, { callback: () => undefined });
      }
      await connection.flush();
      const expected = [
        ...subjects.filter((subject) => !publish.includes(subject)).map((subject) => `Publish to "${subject}"`),
        ...subjects.filter((subject) => !subscribe.includes(subject)).map((subject) => `Subscription to "${subject}"`),
        `Subscription to "_INBOX.other.x"`,
        ...(service === "context" ? [] : [`Subscription to "_INBOX.context.x"`]),
        `Publish to "_INBOX.context.x"`,
        `Publish to "_INBOX.other.x"`,
      ];
      await eventually(() => refused.length >= expected.length);
      const named = refused.map((message) => /(Publish|Subscription) to "[^"]+"/.exec(message)?.[0]);
      expect(named.sort(), service).toEqual(expected.sort());
      await connection.close();
    }
    expect(stack.brokerVariables("bundler")).toEqual({});
    const anonymous = connect({ servers: `127.0.0.1:${stack.ports.of("nats")}`, reconnect: false });
    await expect(anonymous).rejects.toThrow(/Authorization/i);
  });
});

describe("what dies is started again", () => {
  test("a killed service, with another process", async () => {
    const stack = await start(["context"]);
    const { pid } = stack.process("context");
    await stack.kill("context");
    await eventually(() => stack.process("context").state !== "ready");
    await stack.ready("context");
    expect(stack.process("context").pid).not.toBe(pid);
    expect(stack.process("context").starts).toBe(2);
  });

  test("a service on purpose, with other variables", async () => {
    const stack = await start(["context"]);
    await stack.restart("context", { FAILPOINTS: "x=error" });
    expect((await environmentOf(stack, "context"))["FAILPOINTS"]).toBe("x=error");
    expect(journalLines().slice(-2)).toEqual(["context drained", "context started"]);
  });

  test("Postgres and NATS, unless they were taken down", async () => {
    const stack = await start(["context"]);
    await Promise.all([stack.postgres.kill(), stack.nats.kill()]);
    const reachable = async (): Promise<boolean> => {
      const client = new pg.Client(stack.databaseUrl("context"));
      client.on("error", () => undefined);
      await client.connect();
      await client.end();
      return isPortTaken(stack.ports.of("nats"));
    };
    await eventually(reachable, { timeoutMs: 10_000 });
    await stack.postgres.takeDown();
    await expect(reachable()).rejects.toThrow(/ECONNREFUSED/);
    await stack.postgres.bringUp();
    await reachable();
  });
});

describe("a start is refused", () => {
  test("with the variable of the port that is taken", async () => {
    const stack = await start(["context"]);
    const { base } = stack.ports;
    await stack.stop();
    const server = createServer().listen(new Ports(base).admin("context"), "127.0.0.1");
    await once(server, "listening");
    await expect(start(["context"], { portBase: base })).rejects.toThrow(
      new RegExp(`port ${base + 60}, ADMIN_LISTEN of context, is taken by another process.*ITERATE_PORT_BASE`),
    );
    await expect(start(["context"], { portBase: base })).rejects.toBeInstanceOf(StackPortBusyError);
    server.close();
  });

  test("on a state that another stack works on, and allowed after it stopped", async () => {
    const state = join(folder, "shared-state");
    const first = await start(["context"], { state });
    await expect(start(["context"], { state })).rejects.toBeInstanceOf(StateHeldError);
    await first.stop();
    const second = await start(["context"], { state });
    expect(second.adminToken).toBe(first.adminToken);
  });

  test("when a migration fails, with its last lines", async () => {
    await expect(start(["context"], { rows: rows(["context"], { FAIL_MIGRATION: "1" }) })).rejects.toThrow(
      /the migrations of context failed.*migration refused/s,
    );
  });

  test("when a service is not built, with what to do", async () => {
    const unbuilt = rows(["context"]).map((row) => ({ ...row, program: "absent.js" }));
    await expect(start(["context"], { rows: unbuilt })).rejects.toThrow(/context is not built.*make setup/);
  });
});

describe("the program", () => {
  const main = join(import.meta.dirname, "main.ts");

  function run(state: string, base: number): TiedChild {
    return new TiedChild(process.execPath, ["--conditions=iterate-source", "--import", "tsx", main], {
      env: { ...process.env, ITERATE_STATE_DIR: state, ITERATE_PORT_BASE: String(base), ITERATE_SERVICES: "none" },
    });
  }

  test("runs until SIGTERM, says who holds the state to a second one, and leaves nothing behind even when it is killed", async () => {
    const state = join(folder, "program-state");
    const spare = await start([]);
    const { base } = spare.ports;
    await spare.stop();
    const first = run(state, base);
    await eventually(() => first.lastLines().includes("ready in"), { timeoutMs: 30_000 });
    const second = run(state, base);
    expect((await second.exited).code).toBe(1);
    expect(second.lastLines()).toContain(`a stack already runs on ${state}: process ${first.pid}`);
    await first.stop([{ signal: "SIGKILL", waitMs: 5_000 }]);
    await eventually(async () => !(await isPortTaken(base + 32)) && !(await isPortTaken(base + 22)), { timeoutMs: 10_000 });
    const third = run(state, base);
    await eventually(() => third.lastLines().includes("ready in"), { timeoutMs: 30_000 });
    expect(await third.stop([{ signal: "SIGTERM", waitMs: 20_000 }])).toEqual({ code: 0, signal: null });
    expect(await isPortTaken(base + 32)).toBe(false);
  }, 120_000);
});
