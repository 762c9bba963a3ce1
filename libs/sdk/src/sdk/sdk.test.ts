import { AsyncLocalStorage } from "node:async_hooks";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { isolateGlobal, type IsolateInvocation, type Itx } from "../api/itx.js";
import { defineProcessorContract, StreamProcessor } from "../stream/processor.js";
import type { EventInput, ProcessEventArgs, ReduceArgs } from "../stream/processor.js";
import { committedEvent, memoryStream } from "../stream/test-support.js";
import { FacetDurableObject, IterateConfigEntrypoint, StreamProcessorDurableObject } from "./index.js";

const invocations = new AsyncLocalStorage<IsolateInvocation>();
const isolate = globalThis as unknown as Record<symbol, unknown>;
const required = (): IsolateInvocation => {
  const invocation = invocations.getStore();
  if (invocation === undefined) throw Object.assign(new Error("no invocation"), { code: "INTERNAL" });
  return invocation;
};
beforeAll(() => void (isolate[Symbol.for(isolateGlobal)] = { invocation: required }));
afterEach(() => void vi.restoreAllMocks());
afterAll(() => void delete isolate[Symbol.for(isolateGlobal)]);

/** Runs `work` as an isolate would, with a host that records each call and answers by `answer`. */
async function invoke<T>(
  work: () => T,
  options: { contextPath?: string; callerPath?: string; answer?: (method: string) => unknown } = {},
) {
  const { contextPath = "/", answer = (method: string) => ({ method }) } = options;
  const callerPath = options.callerPath ?? contextPath;
  const calls: { method: string; args: readonly unknown[]; path: string }[] = [];
  const itx = {
    hostCall: async (method: string, args: readonly unknown[], path: string) => {
      calls.push({ method, args, path });
      return answer(method);
    },
  };
  return { value: await invocations.run({ itx, contextPath, callerPath }, work), calls };
}

class Probe extends FacetDurableObject {
  async use<T>(work: (itx: Itx) => Promise<T>): Promise<T> {
    using itx = this.getItx();
    return await work(itx);
  }
  open = () => this.getItx();
}

describe("itx", () => {
  it("carries each method with its arguments at the context of the code", async () => {
    const { calls } = await invoke(
      () =>
        new Probe().use(async (itx) => {
          await itx.whoami();
          await itx.append({ type: "a" }, { type: "b", payload: { n: 1 } });
          await itx.readEvents();
          await itx.readEvents({ afterOffset: 4 });
          await itx.waitForEvent({ type: "a", timeoutMs: 5 });
          await itx.facets.get("triage").snapshot();
          await itx.facets.get("triage").waitUntilProcessed({ offset: 3 });
          await itx.invoke("itx.kv.get", "k");
          await itx.describe();
          await itx.describe("itx.kv");
        }),
      { contextPath: "/agents/a" },
    );
    expect(calls.map(({ method, args }) => [method, ...args])).toEqual([
      ["whoami"],
      ["append", { type: "a" }, { type: "b", payload: { n: 1 } }],
      ["readEvents"],
      ["readEvents", { afterOffset: 4 }],
      ["waitForEvent", { type: "a", timeoutMs: 5 }],
      ["facets.snapshot", "triage"],
      ["facets.waitUntilProcessed", "triage", { offset: 3 }],
      ["invoke", "itx.kv.get", "k"],
      ["describe"],
      ["describe", "itx.kv"],
    ]);
    expect(new Set(calls.map(({ path }) => path))).toEqual(new Set(["/agents/a"]));
  });

  it("resolves cd as a path, and refuses what is none before any call", async () => {
    const { calls } = await invoke(
      () =>
        new Probe().use(async (itx) => {
          await itx.cd("/agents/b").append({ type: "hello" });
          await itx.cd("..").cd("./c").whoami();
          expect(() => itx.cd("\u0000")).toThrow(expect.objectContaining({ code: "INVALID_CONTEXT" }));
        }),
      { contextPath: "/agents/a" },
    );
    expect(calls.map(({ path }) => path)).toEqual(["/agents/b", "/agents/c"]);
  });

  it.each<[string, (itx: never) => unknown]>([
    ["itx.run", (itx: { run(): unknown }) => itx.run()],
    ["itx.agents.at", (itx: { agents: { at(path: string): unknown } }) => itx.agents.at("/a")],
    ["itx.agents", (itx: { agents: unknown }) => itx.agents],
    ["itx.facets.abort", (itx: { facets: { abort(): unknown } }) => itx.facets.abort()],
    [
      'itx.facets.get("triage").poke',
      (itx: { facets: { get(name: string): { poke(): unknown } } }) => itx.facets.get("triage").poke(),
    ],
    ["itx.constructor", (itx: { constructor: () => unknown }) => itx.constructor()],
  ])("rejects %s with NOT_A_METHOD and sends nothing", async (name, act) => {
    const { calls } = await invoke(() =>
      new Probe().use(async (itx) => {
        await expect(Promise.resolve(act(itx as never))).rejects.toMatchObject({
          code: "NOT_A_METHOD",
          message: `${name} is not a method of this platform`,
          data: { name },
        });
      }),
    );
    expect(calls).toEqual([]);
  });

  it("can be awaited, printed and passed on without calling anything", async () => {
    const { value, calls } = await invoke(() =>
      new Probe().use(async (itx) => {
        const passedOn: unknown[] = [await Promise.resolve<unknown>(itx), await Promise.resolve<unknown>(itx.facets)];
        return JSON.stringify(passedOn[0]);
      }),
    );
    expect(value).toBe('{"facets":{}}');
    expect(calls).toEqual([]);
  });

  it("ends with its block, and with it what was made from it; an inner scope ends alone", async () => {
    const { calls } = await invoke(async () => {
      const outer = new Probe().open();
      const inner = outer.cd("/b");
      const facet = outer.facets.get("triage");
      const other = outer.cd("/c");
      inner[Symbol.dispose]();
      await expect(inner.whoami()).rejects.toMatchObject({
        code: "CANCELLED",
        message: expect.stringContaining("itx.whoami was called after its scope ended") as string,
      });
      await outer.whoami();
      outer[Symbol.dispose]();
      for (const call of [() => outer.whoami(), () => other.whoami(), () => other.cd("d").whoami(), () => facet.snapshot()]) {
        await expect(call()).rejects.toMatchObject({ code: "CANCELLED" });
      }
    });
    expect(calls).toHaveLength(1);
  });

  it("throws the host's failures as coded errors", async () => {
    const answer = () => {
      throw Object.assign(new Error("the batch conflicts"), { code: "IDEMPOTENCY_CONFLICT", data: { existingOffset: 3 } });
    };
    await invoke(
      () =>
        new Probe().use((itx) =>
          expect(itx.append({ type: "a" })).rejects.toMatchObject({
            name: "CodedError",
            code: "IDEMPOTENCY_CONFLICT",
            data: { existingOffset: 3 },
          }),
        ),
      { answer },
    );
  });

  it("is refused outside an invocation, in words that help", () => {
    expect(() => new Probe().open()).toThrow("no invocation");
    const host = isolate[Symbol.for(isolateGlobal)];
    delete isolate[Symbol.for(isolateGlobal)];
    expect(() => new Probe().open()).toThrow(/outside the platform/);
    isolate[Symbol.for(isolateGlobal)] = host;
  });
});

describe("IterateConfigEntrypoint", () => {
  it("reaches the root's context and names its caller", async () => {
    class Voice extends IterateConfigEntrypoint {
      async setupVoiceAgent({ streamPath }: { streamPath: string }) {
        using itx = this.getItx();
        await itx.cd(this.callerPath()).append({ type: "voice/agent-created", payload: { streamPath } });
        return this.callerPath();
      }
    }
    const { value, calls } = await invoke(() => new Voice().setupVoiceAgent({ streamPath: "/s" }), {
      contextPath: "/",
      callerPath: "/child",
    });
    expect(value).toBe("/child");
    expect(calls).toEqual([
      { method: "append", args: [{ type: "voice/agent-created", payload: { streamPath: "/s" } }], path: "/child" },
    ]);
  });

  it("answers 404 as a problem where the project has no page", async () => {
    const response = await new IterateConfigEntrypoint().fetch(new Request("http://project/x"));
    expect([response.status, response.headers.get("content-type")]).toEqual([404, "application/problem+json"]);
  });
});

describe("StreamProcessorDurableObject", () => {
  const Contract = defineProcessorContract({
    slug: "greeter",
    version: "3",
    description: "Greets",
    stateSchema: z.object({ greeted: z.array(z.string()).default([]) }),
    events: { arrived: z.object({ name: z.string(), loud: z.boolean().default(false) }) },
    consumes: ["arrived"],
    emits: ["greeted", "noted"],
  });
  class Greeter extends StreamProcessor<typeof Contract> {
    readonly contract = Contract;
    override reduce({ event, state }: ReduceArgs<typeof Contract>) {
      return { greeted: [...state.greeted, event.payload.name] };
    }
    override processEvent({ event, append, emit, blockProcessorWhile, runInBackground }: ProcessEventArgs<typeof Contract>) {
      if (event === null) return;
      emit({ type: "greeted", payload: event.payload.name });
      blockProcessorWhile(() => append({ type: "noted" }));
      if (event.offset === 8) runInBackground(() => Promise.reject(new Error("no voice")));
    }
  }
  class GreeterDurableObject extends StreamProcessorDurableObject {
    processor = new Greeter();
  }
  const input = (checkpoint: { version: string; offset: number; state: unknown } | null) => ({
    contextPath: "/lobby",
    name: "greeter",
    checkpoint,
    events: [committedEvent({ type: "arrived", payload: { name: "Ada" } }, { offset: 8, path: "/lobby" })],
    range: { after: 7, through: 9 },
    atHead: true,
  });
  const answersOf = async (object: GreeterDurableObject, ...args: Parameters<GreeterDurableObject["processEventBatch"]>) => {
    const answers: unknown[] = [];
    for await (const answer of object.processEventBatch(...args)) answers.push(answer);
    return answers;
  };
  const processor = { slug: "greeter", version: "3", whileProcessing: { offset: 8, type: "arrived" } };

  it("answers the checkpoint with its emits, then that the background has settled, and appends through itx", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const { value, calls } = await invoke(
      () => answersOf(new GreeterDurableObject(), input({ version: "3", offset: 7, state: { greeted: ["Bob"] } })),
      { contextPath: "/lobby" },
    );
    expect(value).toEqual([
      {
        kind: "checkpoint",
        version: "3",
        offset: 9,
        state: { greeted: ["Bob", "Ada"] },
        emits: [{ type: "greeted", payload: "Ada", source: { processor } }],
        backgroundCount: 1,
      },
      { kind: "settled", failures: [{ offset: 8, code: "CODE_FAILED", message: "no voice" }] },
    ]);
    expect(calls).toEqual([{ method: "append", args: [{ type: "noted", source: { processor } }], path: "/lobby" }]);
    expect(logged.mock.calls).toEqual([
      [expect.stringMatching(/^processor greeter: background-failed: .* offset 8 /), new Error("no voice")],
    ]);
  });

  it("folds again from the log of the host it is given when the checkpoint is of another version", async () => {
    const host = memoryStream(
      Array.from({ length: 7 }, (_, index): EventInput => ({ type: "arrived", payload: { name: String(index) } })),
    );
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const [checkpoint] = await answersOf(new GreeterDurableObject(), input({ version: "2", offset: 2, state: {} }), host);
    expect(checkpoint).toMatchObject({ state: { greeted: ["0", "1", "2", "3", "4", "5", "6", "Ada"] } });
    expect((checkpoint as { emits: EventInput[] }).emits.map(({ payload }) => payload)).toEqual(["2", "3", "4", "5", "6", "Ada"]);
  });

  it("hosts a processor that emits nothing", () => {
    const Silent = defineProcessorContract({
      slug: "silent",
      version: "1",
      description: "Counts and says nothing",
      stateSchema: z.object({ count: z.int().default(0) }),
      consumes: ["arrived"],
      emits: [],
    });
    class SilentProcessor extends StreamProcessor<typeof Silent> {
      override readonly contract = Silent;
      override reduce({ state }: ReduceArgs<typeof Silent>) {
        return { count: state.count + 1 };
      }
    }
    class SilentDurableObject extends StreamProcessorDurableObject {
      override readonly processor = new SilentProcessor();
    }
    expect(new SilentDurableObject().describe()).toMatchObject({ slug: "silent", emits: [] });
  });

  it("describes its contract as data", () => {
    expect(JSON.parse(JSON.stringify(new GreeterDurableObject().describe()))).toMatchObject({
      slug: "greeter",
      version: "3",
      consumes: ["arrived"],
      emits: ["greeted", "noted"],
      stateSchema: { type: "object", properties: { greeted: { type: "array", items: { type: "string" } } } },
      eventSchemas: { arrived: { required: ["name"], properties: { loud: { default: false } } } },
    });
  });
});
