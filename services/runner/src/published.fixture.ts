/** The services that turn commits into running code, as processes of their own, and the code the tests publish. */
import { RepoServiceClient } from "@iterate-platform/proto/iterate/bundler/v1/repo";
import { createClient } from "@iterate-platform/service/grpc-client";
import { migrate } from "@iterate-platform/service/migrations";
import { startPostgres, type TestDatabase } from "@iterate-platform/testing";
import type { ServiceProcess } from "@iterate-platform/testing/service-process";
import { startService, type TestPlatform } from "./platform.fixture.js";

export interface CodeServices {
  /** Where runners find them. */
  readonly env: Readonly<Record<string, string>>;
  readonly isolate: ServiceProcess;
  commit(owner: string, files: Readonly<Record<string, string>>): Promise<string>;
  stop(): Promise<void>;
}

export async function startCodeServices(platform: TestPlatform): Promise<CodeServices> {
  const database: TestDatabase = await (await startPostgres()).createDatabase();
  await migrate({ url: database.url, dir: new URL("../../bundler/migrations", import.meta.url).pathname });
  const common = {
    GRPC_LISTEN: "127.0.0.1:0",
    HTTP_LISTEN: "127.0.0.1:0",
    ITERATE_TRUSTED_KEYS_FILE: platform.keys.trustedKeysFile,
  };
  const [isolate, worker] = await Promise.all([
    startService("runner/src/isolate-main.ts", { ...common, ISOLATE_TENANCY: "shared" }),
    startService("bundler/src/worker-main.ts", { ...common, BUILD_CPU_S: "120" }),
  ]);
  const bundler = await startService("bundler/src/main.ts", {
    ...common,
    DATABASE_URL: database.url,
    CONTEXT_URL: platform.contextUrl,
    BUILD_WORKER_URL: `http://127.0.0.1:${worker.ports["grpc"]}`,
    ITERATE_SERVICE_KEY_FILE: platform.keys.keyFile("bundler"),
  });
  const bundlerUrl = `http://127.0.0.1:${bundler.ports["grpc"]}`;
  const repos = createClient(RepoServiceClient, bundlerUrl, { trust: await platform.keys.trustOf("ingress"), audience: "bundler" });
  return {
    env: {
      ISOLATE_URL: `http://127.0.0.1:${isolate.ports["grpc"]}`,
      ISOLATE_HTTP_URL: `http://127.0.0.1:${isolate.ports["http"]}`,
      BUNDLER_URL: bundlerUrl,
    },
    isolate,
    commit: async (owner, files) => {
      const changes = Object.entries(files).map(([path, content]) => ({ path, content: Buffer.from(content) }));
      const author = { name: "Test", email: "test@example.com" };
      const { oid } = await repos.commitFiles(
        { repo: { owner, path: "/repos/config" }, message: "change", changes, author },
        { deadlineMs: 60_000 },
      );
      return oid;
    },
    stop: async () => {
      repos.close();
      await Promise.all([isolate, worker, bundler].map((process) => process.end()));
      await database.drop();
    },
  };
}

export const projectFiles = {
  "iterate.toml": `
[project]
main = "worker.ts"

[processors.scripted]
module = "scripted.ts"
class = "ScriptedDurableObject"
context = "/a"

[processors.harmful]
module = "scripted.ts"
class = "ScriptedDurableObject"
context = "/b"
`,
  "worker.ts": `
import { IterateConfigEntrypoint } from "iterate/sdk";

export default class extends IterateConfigEntrypoint {
  async fetch(request: Request): Promise<Response> {
    const url = new URL(request.url);
    if (url.pathname === "/state") {
      using itx = this.getItx();
      return Response.json(await itx.cd("/a").facets.get("scripted").snapshot());
    }
    if (url.pathname === "/echo") return new Response(request.body, { headers: { "x-method": request.method, "x-base": request.headers.get("x-iterate-base-path") ?? "" } });
    if (url.pathname === "/visit") {
      using itx = this.getItx();
      await itx.append({ type: "visit" }, { type: "visit" });
      return new Response("noted");
    }
    if (url.pathname === "/throw") throw new Error("secret of the project");
    return new Response("hello from " + url.pathname);
  }
}
`,
  "scripted.ts": `
import { StreamProcessorDurableObject, type Itx } from "iterate/sdk";
import { defineProcessorContract, StreamProcessor, type ProcessEventArgs, type ReduceArgs } from "iterate/stream/processor";
import { z } from "zod";

const contract = defineProcessorContract({
  slug: "scripted",
  version: "1",
  description: "Does what an event says.",
  stateSchema: z.object({ seen: z.array(z.number()).default([]) }),
  events: { tick: z.object({ do: z.string().optional() }) },
  consumes: ["tick"],
  emits: ["tick", "a", "b", "c", "heard"],
});

const tries = new Map<number, number>();

async function codeOf(work: () => unknown): Promise<string> {
  try {
    await work();
    return "OK";
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}

class Scripted extends StreamProcessor<typeof contract> {
  readonly contract = contract;
  constructor(readonly open: () => Itx) {
    super();
  }

  override reduce({ event, state }: ReduceArgs<typeof contract>) {
    if (event.payload.do === "reduce-throws") throw new Error("reduce");
    return { seen: [...state.seen, event.offset] };
  }

  override async processEvent({ event, append, emit, blockProcessorWhile, runInBackground }: ProcessEventArgs<typeof contract>) {
    if (event === null) return;
    const attempt = (tries.get(event.offset) ?? 0) + 1;
    tries.set(event.offset, attempt);
    switch (event.payload.do) {
      case "emit":
        console.log("emitting for " + event.offset);
        emit({ type: "a", payload: { of: event.offset } });
        break;
      case "append-then-fail-once": {
        await append({ type: "a", payload: { x: 1, y: 2 } });
        await append({ type: "b" });
        const [again] = await append({ type: "a", payload: { y: 2, x: 1 } });
        if (attempt === 1) throw new Error("once");
        emit({ type: "c", payload: { same: again.offset, attempt } });
        break;
      }
      case "invoke-then-fail-once": {
        using itx = this.open();
        const [called] = (await itx.invoke("itx.cd('/').append", { type: "called", payload: { of: event.offset } })) as { offset: number; source: { origin: string } }[];
        if (attempt === 1) throw new Error("once");
        emit({
          type: "heard",
          payload: {
            called: { origin: called.source.origin },
            path: await itx.invoke("itx.whoami().path"),
            nothing: await itx.invoke("itx.whoami().nothing"),
            described: (await itx.describe("itx.append")).state,
            builtins: await codeOf(() => itx.invoke("itx.builtins.whoami()")),
            stream: await codeOf(() => itx.invoke("itx.streamEvents()")),
            unknown: await codeOf(() => itx.invoke("itx.nothing()")),
            text: await codeOf(() => itx.invoke("itx.")),
          },
        });
        break;
      }
      case "echo":
        await append({ type: "tick", payload: { do: "echo", after: event.offset } });
        break;
      case "block":
        blockProcessorWhile(async () => {
          await new Promise((resolve) => setTimeout(resolve, 20));
          blockProcessorWhile(() => emit({ type: "b", payload: { of: event.offset } }));
        });
        break;
      case "slow":
        await new Promise((resolve) => setTimeout(resolve, 4000));
        emit({ type: "b", payload: { slow: event.offset } });
        break;
      case "background":
        runInBackground(() => Promise.reject(new Error("in the background")));
        break;
      case "permanent":
        throw Object.assign(new Error("never"), { code: "PERMANENT_FAILURE" });
      case "always-throw":
        throw new Error("always");
      case "loop":
        for (;;);
      case "itx": {
        using itx = this.open();
        const [written] = await itx.cd("/b").append({ type: "note", payload: { from: "a" } });
        emit({
          type: "heard",
          payload: {
            whoami: await itx.whoami(),
            written: { offset: written.offset, origin: written.source.origin, path: written.path },
            read: (await itx.cd("/b").readEvents({ types: ["note"] })).events.length,
            waited: (await itx.waitForEvent({ type: "tick", afterOffset: event.offset - 1, timeoutMs: 1000 })).offset,
            snapshot: await codeOf(() => itx.facets.get("nobody").snapshot()),
            unknown: await codeOf(() => (itx as unknown as { kv: { get(key: string): Promise<unknown> } }).kv.get("k")),
            reserved: await codeOf(() => itx.append({ type: "x", idempotencyKey: "itx/run-settled:9" })),
            platform: await codeOf(() => itx.append({ type: "events.iterate.com/project/worker-updated", payload: {} })),
            builtins: await codeOf(() =>
              itx.append({ type: "events.iterate.com/itx/subscription-configured", payload: { name: "p", target: ["itx", "builtins", "processors", ["get", "publication"]] } }),
            ),
            outside: (await fetch("http://127.0.0.1:1/")).status,
          },
        });
      }
    }
  }
}

export class ScriptedDurableObject extends StreamProcessorDurableObject {
  readonly processor = new Scripted(() => this.getItx());
}
`,
};
