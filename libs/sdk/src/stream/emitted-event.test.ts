import { describe, expect, it } from "vitest";
import { z } from "zod";
import {
  defineProcessorContract,
  maxBatchEvents,
  maxEventBytes,
  maxIdempotencyKeyBytes,
  maxStateBytes,
  ProcessorEngine,
  StreamProcessor,
} from "./processor.js";
import type { EventInput, ProcessEventArgs, ReduceArgs } from "./processor.js";
import { committedEvent, memoryStorage, memoryStream, settle } from "./test-support.js";

const Contract = defineProcessorContract({
  slug: "writer",
  version: "2",
  description: "Writes what a test tells it to",
  stateSchema: z.object({ text: z.string().default("") }),
  events: { note: z.object({ text: z.string() }) },
  consumes: ["go"],
  emits: ["note", "free"],
});
type Contract = typeof Contract;

class Writer extends StreamProcessor<Contract> {
  readonly contract = Contract;
  constructor(private readonly act: (args: ProcessEventArgs<Contract>) => unknown) {
    super();
  }
  override reduce({ event }: ReduceArgs<Contract>) {
    return { text: (event.payload as { text?: string } | undefined)?.text ?? "" };
  }
  override processEvent(args: ProcessEventArgs<Contract>) {
    return args.event === null ? undefined : this.act(args);
  }
}

async function write(verb: "append" | "emit", ...events: EventInput[]) {
  const stream = memoryStream([{ type: "go" }]);
  const storage = memoryStorage<{ text: string }>();
  const engine = new ProcessorEngine(new Writer((args) => (args[verb] as (...inputs: EventInput[]) => unknown)(...events)), {
    stream,
    storage,
  });
  await settle(engine, stream, storage);
  return stream.events.slice(1);
}

describe.each(["append", "emit"] as const)("%s", (verb) => {
  it("[iterate-71] throws for a type the contract does not declare", async () => {
    await expect(write(verb, { type: "surprise" })).rejects.toMatchObject({
      code: "INVALID_INPUT",
      message: expect.stringContaining(`"surprise" is not among the contract's emits`) as string,
    });
  });

  it("[iterate-71] stamps a declared type with the processor and what it was handling, and drops a source of the writer's own", async () => {
    const forged = {
      type: "note",
      payload: { text: "hello" },
      source: { origin: "/elsewhere", platform: true, processor: { slug: "other", version: "9" } },
    };
    const [written] = await write(verb, forged);
    expect(written).toMatchObject({
      type: "note",
      payload: { text: "hello" },
      source: { processor: { slug: "writer", version: "2", whileProcessing: { offset: 1, type: "go" } } },
    });
    expect(written?.source.origin).toBe("/");
  });

  it.each<[string, EventInput, string]>([
    ["a payload its schema refuses", { type: "note", payload: { text: 5 } }, "does not fit its schema: text:"],
    ["an absent payload its schema needs", { type: "note" }, "does not fit its schema"],
    ["a payload that is not JSON", { type: "free", payload: 1n }, 'the payload of "free" is not JSON'],
    ["metadata that is not JSON", { type: "free", metadata: () => 1 }, 'the metadata of "free" is not JSON'],
    ["an empty key", { type: "free", idempotencyKey: "" }, "idempotency key"],
    ["a key with NUL", { type: "free", idempotencyKey: "a\0b" }, "idempotency key"],
    ["a key with a lone surrogate", { type: "free", idempotencyKey: "\ud800" }, "idempotency key"],
    [
      "a key over its limit",
      { type: "free", idempotencyKey: "é".repeat(maxIdempotencyKeyBytes / 2) + "x" },
      "longer than 512 bytes",
    ],
    ["an offset of zero", { type: "free", offset: 0 }, "offset"],
  ])("refuses %s", async (_name, input, message) => {
    await expect(write(verb, input)).rejects.toMatchObject({
      code: "INVALID_INPUT",
      message: expect.stringContaining(message) as string,
    });
  });

  it("takes a key of exactly its limit", async () => {
    const key = "é".repeat(maxIdempotencyKeyBytes / 2);
    expect((await write(verb, { type: "free", idempotencyKey: key }))[0]?.idempotencyKey).toBe(key);
  });

  // The JSON text of a string has two quotes.
  it.each([[maxEventBytes - 1], [maxEventBytes]])("takes a body of %i bytes", async (bytes) => {
    expect(await write(verb, { type: "free", payload: "x".repeat(bytes - 2) })).toHaveLength(1);
  });

  it("refuses a body one byte over, counting UTF-8 and metadata", async () => {
    const payload = "é".repeat((maxEventBytes - 4) / 2);
    expect(await write(verb, { type: "free", payload, metadata: 12 })).toHaveLength(1);
    await expect(write(verb, { type: "free", payload, metadata: 123 })).rejects.toMatchObject({
      code: "EVENT_TOO_LARGE",
      data: { bytes: maxEventBytes + 1 },
    });
  });

  it("takes as many events as one batch may hold and refuses one more", async () => {
    const events = Array.from({ length: maxBatchEvents }, (_, n) => ({ type: "free", payload: n }));
    expect(await write(verb, ...events)).toHaveLength(maxBatchEvents);
    await expect(write(verb, ...events, { type: "free" })).rejects.toMatchObject({
      code: "BATCH_TOO_LARGE",
      data: { events: maxBatchEvents + 1 },
    });
  });

  it("takes 16 MiB of bodies in one batch and refuses one byte more", async () => {
    const half = { type: "free", payload: "x".repeat(maxEventBytes - 2) };
    expect(await write(verb, half, half)).toHaveLength(2);
    await expect(write(verb, half, half, { type: "free", payload: 1 })).rejects.toMatchObject({
      code: "BATCH_TOO_LARGE",
      data: { bytes: 2 * maxEventBytes + 1 },
    });
  });
});

describe("emit alone", () => {
  it("refuses a precondition, since the event is appended later", async () => {
    await expect(write("emit", { type: "free", offset: 2 })).rejects.toMatchObject({
      code: "INVALID_INPUT",
      message: expect.stringContaining("use append") as string,
    });
    expect(await write("append", { type: "free", offset: 2 })).toHaveLength(1);
  });

  it("keeps what was emitted, not what its object became", async () => {
    const payload = { text: "before", gone: undefined };
    const stream = memoryStream([{ type: "go" }]);
    const storage = memoryStorage<{ text: string }>();
    const processor = new Writer(({ emit }) => {
      emit({ type: "note", payload });
      payload.text = "after";
    });
    await settle(new ProcessorEngine(processor, { stream, storage }), stream, storage);
    expect(stream.events[1]?.payload).toEqual({ text: "before" });
    expect(Object.keys(stream.events[1]?.payload as object)).toEqual(["text"]);
  });
});

describe("the state's limit", () => {
  const go = (length: number) => ({
    events: [committedEvent({ type: "go", payload: { text: "x".repeat(length) } })],
    range: { after: 0, through: 1 },
    atHead: true,
  });
  const frame = JSON.stringify({ text: "" }).length;
  const engineOf = () => {
    const storage = memoryStorage<{ text: string }>();
    return { storage, engine: new ProcessorEngine(new Writer(() => undefined), { stream: memoryStream(), storage }) };
  };

  it.each([[maxStateBytes - 1], [maxStateBytes]])("keeps a state of %i bytes", async (bytes) => {
    const { engine, storage } = engineOf();
    await engine.processBatch(go(bytes - frame)).next();
    expect(storage.writes).toBe(1);
  });

  it("[iterate-73] refuses one byte more, writes nothing, and stays refused", async () => {
    const { engine, storage } = engineOf();
    const refused = { code: "REDUCE_CHECKPOINT_TOO_LARGE", data: { slug: "writer", bytes: maxStateBytes + 1, maxStateBytes } };
    await expect(engine.processBatch(go(maxStateBytes + 1 - frame)).next()).rejects.toMatchObject(refused);
    await expect(engine.processBatch(go(1)).next()).rejects.toMatchObject(refused);
    await expect(engine.snapshot()).rejects.toMatchObject(refused);
    expect(storage.writes).toBe(0);
  });
});
