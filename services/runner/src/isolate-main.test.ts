/** The isolate role as a process: what it holds, whom it dials, how it ends. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterEach, beforeAll, afterAll, expect, test } from "vitest";
import { eventually } from "@iterate-platform/testing";
import { ServiceProcess } from "@iterate-platform/testing/service-process";
import { IsolatePool } from "./isolate/client.js";
import { processorBundle } from "./isolate/isolate.fixture.js";
import { held, invocationOf, testKeys } from "./isolate/role.fixture.js";

let keys: Awaited<ReturnType<typeof testKeys>>;
let running: ServiceProcess | undefined;
beforeAll(async () => {
  keys = await testKeys();
});
afterAll(() => keys.remove());
afterEach(() => running?.end("SIGKILL"));

const script = fileURLToPath(new URL("./isolate-main.ts", import.meta.url));
const given = (env: Record<string, string> = {}) => ({
  ITERATE_TRUSTED_KEYS_FILE: keys.trustedKeysFile,
  ISOLATE_TENANCY: "project",
  ...env,
});

/** Remote ports of the TCP connections that a process made or took: its own port on each side. */
function connections(pid: number): { local: number; remote: number; state: string }[] {
  const inodes = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => /^socket:\[(\d+)\]$/.exec(linkOf(`/proc/${pid}/fd/${fd}`))?.[1] ?? []),
  );
  return ["tcp", "tcp6"].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, "utf8")
      .split("\n")
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter((fields) => inodes.has(fields[9] ?? ""))
      .map((fields) => ({ local: portOf(fields[1]!), remote: portOf(fields[2]!), state: fields[3]! })),
  );
}
const portOf = (address: string) => Number.parseInt(address.split(":")[1]!, 16);
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

test("it serves the runner, holds no credential, dials nobody, binds to its project, and ends its processes at SIGTERM", async () => {
  const { pid, ports } = (running = await ServiceProcess.start(script, given()));
  const client = new IsolatePool({
    trust: await keys.trustOf("runner"),
    url: `127.0.0.1:${ports["grpc"]}`,
    httpUrl: `http://127.0.0.1:${ports["http"]}`,
  });
  const bundle = held(
    processorBundle(
      `yield { kind: "checkpoint", version: "1", offset: 1, state: null, emits: [], backgroundCount: 0 }; yield { kind: "settled", failures: [] };`,
    ),
  );
  const batch = { ...invocationOf(bundle), module: "main.js", className: "P", input: {} };
  const kinds: string[] = [];
  for await (const { kind } of client.processBatch(batch, { hostCall: async () => null })) kinds.push(kind);
  expect(kinds).toEqual(["checkpoint", "settled"]);

  const environment = readFileSync(`/proc/${pid}/environ`, "utf8")
    .split("\0")
    .map((pair) => pair.split("=")[0])
    .filter(Boolean);
  expect(environment.sort()).toEqual(["ISOLATE_TENANCY", "ITERATE_TRUSTED_KEYS_FILE", "PATH"]);
  const own = new Set(Object.values(ports));
  // Listening, or taken on one of its own ports: never made by it.
  expect(connections(pid!).filter(({ local, state }) => state !== "0A" && !own.has(local))).toEqual([]);
  const files = readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`));
  expect(files.filter((file) => file.endsWith(".json") || file.includes("keys"))).toEqual([]);

  const stranger = held({ ...processorBundle(""), owner: "prj_other" });
  await expect(client.ensure(stranger)).rejects.toMatchObject({ code: "UNAVAILABLE", data: { tenant: "other" } });

  const isolates = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && parentOf(name) === pid);
  expect(isolates.length).toBeGreaterThan(0);
  await client.close();
  expect((await running.end()).code).toBe(0);
  await eventually(() => isolates.every((pid) => parentOf(pid) === undefined || stateOf(pid) === "Z"));
});

test.each(["ITERATE_SERVICE_KEY_FILE", "DATABASE_URL", "NATS_URL"])("it does not start beside %s", async (name) => {
  const value = {
    ITERATE_SERVICE_KEY_FILE: keys.keyFile("runner-isolate"),
    DATABASE_URL: "postgres://a:b@c/d",
    NATS_URL: "nats://x",
  }[name]!;
  running = ServiceProcess.spawn(script, given({ [name]: value }));
  expect((await running.exited).code).toBe(1);
  const lines = running.lines;
  expect(lines.join("\n")).toContain(name);
  expect(lines.join("\n")).not.toContain("a:b@c");
});

function statOf(pid: string): string[] | undefined {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, "latin1");
    return line.slice(line.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}
function parentOf(pid: string): number | undefined {
  const fields = statOf(pid);
  return fields === undefined ? undefined : Number(fields[1]);
}
function stateOf(pid: string): string | undefined {
  return statOf(pid)?.[0];
}
