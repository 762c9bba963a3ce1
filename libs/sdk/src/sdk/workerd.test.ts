/** The SDK where it is meant to run: bundled by esbuild into a real workerd, with the project code of the README. */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRequire } from "node:module";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { committedEvent } from "../stream/test-support.js";

// The package answers the path of its binary and has no types.
const workerd = createRequire(import.meta.url)("workerd") as { readonly default: string };

const project = `
import { IterateConfigEntrypoint, StreamProcessorDurableObject } from "iterate/sdk";
import { StreamProcessor, defineProcessorContract } from "iterate/stream/processor";
import { z } from "zod";

const Contract = defineProcessorContract({
  slug: "hoarder",
  version: "1.0.0",
  description: "keeps every blob it reduces",
  stateSchema: z.object({ blobs: z.array(z.string()).default([]) }),
  consumes: ["blob"],
  emits: [],
});
class Hoarder extends StreamProcessor {
  contract = Contract;
  reduce({ event, state }) {
    return { blobs: [...state.blobs, event.payload.blob] };
  }
}
export class HoarderDurableObject extends StreamProcessorDurableObject {
  processor = new Hoarder();
}
export default class extends IterateConfigEntrypoint {
  async fetch() {
    using itx = this.getItx();
    const { projectSlug } = await itx.whoami();
    return new Response(\`Homepage of \${projectSlug}\`);
  }
}`;

/** Stands for the platform's harness: one scope per request, and a host that knows two methods. */
const harness = `
import { AsyncLocalStorage } from "node:async_hooks";
const scopes = new AsyncLocalStorage();
globalThis[Symbol.for("iterate.isolate")] = { invocation: () => scopes.getStore() };
const { default: Entrypoint, HoarderDurableObject } = await import("project");
const itx = { async hostCall(method, args, path) {
  if (method === "whoami") return { projectId: "prj_1", projectSlug: "acme", path };
  throw Object.assign(new Error(method + " is not here"), { code: "NOT_A_METHOD" });
} };
export default { fetch: (request) => scopes.run({ itx, contextPath: "/", callerPath: "/" }, async () => {
  const { pathname } = new URL(request.url);
  if (pathname === "/page") return new Entrypoint({}, {}).fetch(request);
  const object = new HoarderDurableObject({}, {});
  if (pathname === "/describe") return Response.json(object.describe());
  const answers = [];
  for await (const answer of object.processEventBatch(await request.json())) answers.push(answer);
  return Response.json(answers);
}) };`;

let folder: string;
let server: ChildProcess;
let base: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "iterate-sdk-"));
  const { outputFiles, metafile } = await build({
    stdin: { contents: harness, resolveDir: import.meta.dirname },
    plugins: [
      {
        name: "project",
        setup(build) {
          build.onResolve({ filter: /^project$/ }, () => ({ path: "project", namespace: "project" }));
          build.onLoad({ filter: /.*/, namespace: "project" }, () => ({ contents: project, resolveDir: import.meta.dirname }));
        },
      },
    ],
    bundle: true,
    format: "esm",
    target: "es2024",
    platform: "neutral",
    mainFields: ["module", "main"],
    conditions: ["iterate-source", "workerd"],
    external: ["node:async_hooks"],
    write: false,
    metafile: true,
  });
  const nodeImports = Object.entries(metafile.inputs).filter(
    ([path, input]) => path.startsWith("libs/sdk/") && input.imports.some((entry) => entry.path.startsWith("node:")),
  );
  expect(nodeImports.map(([path]) => path).filter((path) => !path.endsWith("<stdin>"))).toEqual([]);
  writeFileSync(join(folder, "main.js"), outputFiles[0]?.contents ?? "");
  writeFileSync(
    join(folder, "config.capnp"),
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = (modules = [(name = "main.js", esModule = embed "main.js")], compatibilityDate = "2026-11-01"))],
  sockets = [(name = "in", address = "127.0.0.1:0", http = (), service = "main")],
);`,
  );
  server = spawn(workerd.default, ["serve", "--control-fd=3", join(folder, "config.capnp")], {
    stdio: ["ignore", "ignore", "pipe", "pipe"],
  });
  base = await new Promise((resolve, reject) => {
    let errors = "";
    server.stderr?.on("data", (chunk: Buffer) => (errors += chunk.toString()));
    server.stdio[3]?.on("data", (chunk: Buffer) =>
      resolve(`http://127.0.0.1:${(JSON.parse(chunk.toString().split("\n")[0] ?? "") as { port: number }).port}`),
    );
    server.once("exit", () => reject(new Error(`workerd ended: ${errors}`)));
  });
});

afterAll(() => {
  server.kill("SIGKILL");
  rmSync(folder, { recursive: true });
});

describe("in workerd", () => {
  it("serves the project's page through a using scope", async () => {
    const response = await fetch(`${base}/page`);
    expect(await response.text()).toBe("Homepage of acme");
  });

  it("runs a processor's batch", async () => {
    const events = ["a", "b"].map((blob, index) => committedEvent({ type: "blob", payload: { blob } }, { offset: index + 1 }));
    const response = await fetch(`${base}/batch`, {
      method: "POST",
      body: JSON.stringify({
        contextPath: "/",
        name: "hoarder",
        checkpoint: null,
        events,
        range: { after: 0, through: 2 },
        atHead: true,
      }),
    });
    expect(await response.json()).toEqual([
      { kind: "checkpoint", version: "1.0.0", offset: 2, state: { blobs: ["a", "b"] }, emits: [], backgroundCount: 0 },
      { kind: "settled", failures: [] },
    ]);
  });

  it("describes a contract where code may not be made from strings", async () => {
    const description = (await (await fetch(`${base}/describe`)).json()) as { stateSchema: unknown };
    expect(description.stateSchema).toMatchObject({ properties: { blobs: { type: "array" } } });
  });
});
