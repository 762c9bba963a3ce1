import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { consumesEvent, defineProcessorContract, StreamProcessor } from "./processor.js";
import type { ConsumedEvent, EmittedEventInput, ProcessEventArgs, ProcessorState, ReduceArgs } from "./processor.js";
import { committedEvent, reduceProcessor } from "./test-support.js";

const opened = z.object({ title: z.string(), labels: z.array(z.string()).default([]) });
const Issues = defineProcessorContract({
  slug: "issues",
  version: "1.0.0",
  description: "Counts open issues",
  stateSchema: z.object({ open: z.number().default(0) }),
  events: { "issue/opened": opened, "issue/closed": z.object({}) },
  consumes: ["issue/opened", "issue/closed", "unknown"],
  emits: ["issue/closed"],
});
const valid = { slug: "a", version: "1", description: "", stateSchema: z.object({}), consumes: [], emits: [] } as const;

describe("types", () => {
  it("gives the consumed events as a union by type, payloads as the schema makes them", () => {
    type Event = ConsumedEvent<typeof Issues>;
    expectTypeOf<Event["type"]>().toEqualTypeOf<"issue/opened" | "issue/closed" | "unknown">();
    expectTypeOf<Extract<Event, { type: "issue/opened" }>["payload"]>().toEqualTypeOf<{ title: string; labels: string[] }>();
    expectTypeOf<Extract<Event, { type: "unknown" }>["payload"]>().toBeAny();
  });

  it("gives the emitted events with payloads as the schema takes them", () => {
    const Opener = defineProcessorContract({ ...valid, emits: ["issue/opened"], processorDeps: [Issues] });
    expectTypeOf<EmittedEventInput<typeof Opener>["payload"]>().toEqualTypeOf<
      { title: string; labels?: string[] | undefined } | undefined
    >();
    expect(Opener.schemas.get("issue/opened")).toBe(opened);
    expectTypeOf<EmittedEventInput<typeof Opener>["type"]>().toEqualTypeOf<"issue/opened">();
  });

  it("gives the state, and takes any contract where none is named", () => {
    expectTypeOf<ProcessorState<typeof Issues>>().toEqualTypeOf<{ open: number }>();
    class Free extends StreamProcessor {
      contract = Issues;
      override reduce({ event, state }: ReduceArgs<typeof Issues>) {
        return { open: state.open + (event.type === "issue/opened" ? event.payload.labels.length : 0) };
      }
      override processEvent({ emit }: ProcessEventArgs<typeof Issues>) {
        emit({ type: "issue/closed", payload: {} });
        // @ts-expect-error -- the contract does not emit it
        const undeclared = () => emit({ type: "issue/opened", payload: { title: "" } });
        return undeclared;
      }
    }
    expect(new Free().contract.slug).toBe("issues");
  });
});

describe("a definition", () => {
  it.each([
    ["a slug that is no kebab-case", { slug: "My Slug" }, "slug"],
    ["a slug over 63 characters", { slug: "a".repeat(64) }, "slug"],
    ["an empty version", { version: " " }, "version"],
    ["a blank type", { consumes: [" "] }, "non-blank"],
    [
      "a mistyped type of the platform",
      { consumes: ["events.iterate.com/github/webhook-recieved"] },
      'did you mean "events.iterate.com/github/webhook-received"?',
    ],
    ["a mistyped one that is no name either", { emits: ["events.iterate.com/itx/pausd"] }, "did you mean"],
    ["a star inside the list", { consumes: ["*"] }, 'consumes: "*"'],
    ["a type over 256 bytes", { emits: ["é".repeat(128) + "x"] }, "256 bytes"],
    ["a type with NUL", { emits: ["a\0"] }, "NUL"],
    ["one segment under the platform's prefix", { emits: ["events.iterate.com/opened"] }, "<namespace>/<event>"],
    ["three segments under it", { consumes: ["events.iterate.com/a/b/c"] }, "<namespace>/<event>"],
    ["capitals under it", { events: { "events.iterate.com/a/Opened": z.object({}) } }, "<namespace>/<event>"],
    ["a type two contracts define", { events: { "issue/opened": z.object({}) }, processorDeps: [Issues] }, "defined twice"],
    ["a type of the platform with another shape", { events: { "events.iterate.com/itx/paused": z.object({}) } }, "by the platform"],
    ["a platform type nobody declared", { consumes: ["events.iterate.com/itx/no-such-deed-recorded"] }, "catalog"],
    ["a test type that is a noun", { emits: ["events.iterate.com/test/ping"] }, "past tense"],
    ["a test type that asks in vain", { events: { "events.iterate.com/test/run-requested": z.object({}) } }, "nobody answers"],
    ["a state that {} does not fit", { stateSchema: z.object({ open: z.number() }) }, "must accept {}"],
  ])("is refused for %s", (_name, part, message) => {
    expect(() => defineProcessorContract({ ...valid, ...part } as unknown as typeof valid)).toThrow(
      expect.objectContaining({ code: "INVALID_INPUT", message: expect.stringContaining(message) as string }),
    );
  });

  it.each([
    ["a slug of 63 characters", { slug: "a".repeat(63) }],
    ["a type of 256 bytes", { emits: ["é".repeat(128)] }],
    ["a platform type", { consumes: ["events.iterate.com/github/webhook-received"] }],
    ["a type of its own tests", { emits: ["events.iterate.com/test/pinged"] }],
  ])("is taken with %s", (_name, part) => {
    expect(() => defineProcessorContract({ ...valid, ...part } as unknown as typeof valid)).not.toThrow();
  });
});

describe("consumesEvent", () => {
  const all = defineProcessorContract({ ...valid, consumes: "*" });
  const named = defineProcessorContract({ ...valid, consumes: ["poke"] });
  it.each([
    ["every durable event for *", all, committedEvent({ type: "anything" }), true],
    ["no ephemeral one for *", all, committedEvent({ type: "poke" }, { ephemeral: true }), false],
    ["a named type", named, committedEvent({ type: "poke" }), true],
    ["a named ephemeral type", named, committedEvent({ type: "poke" }, { ephemeral: true }), true],
    ["no other type", named, committedEvent({ type: "tick" }), false],
  ])("takes %s", (_name, contract, event, expected) => {
    expect(consumesEvent(contract, event)).toBe(expected);
  });
});

describe("idempotencyKey", () => {
  class Keys extends StreamProcessor {
    contract = Issues;
  }
  it("names the processor, the fact and the event, and has a limit", () => {
    const keys = new Keys();
    expect(keys.idempotencyKey("settled")).toBe("issues/settled");
    expect(keys.idempotencyKey("settled", { offset: 12 })).toBe("issues/settled:12");
    expect(keys.idempotencyKey("x".repeat(505))).toHaveLength(512);
    expect(() => keys.idempotencyKey("x".repeat(506))).toThrow(/longer than 512 bytes/);
  });
});

describe("reduceProcessor", () => {
  class Counter extends StreamProcessor<typeof Issues> {
    readonly contract = Issues;
    override reduce({ event, state }: ReduceArgs<typeof Issues>) {
      if (event.type === "unknown") throw new Error("unknown");
      if (event.type === "issue/closed") state.open -= 1;
      return event.type === "issue/opened" ? { open: state.open + 1 } : undefined;
    }
  }
  it("folds what the engine would fold", () => {
    const state = reduceProcessor(new Counter(), [
      { type: "issue/opened", payload: { title: "one" } },
      { type: "issue/opened", payload: { title: 2 } },
      { type: "noise" },
      committedEvent({ type: "issue/opened", payload: { title: "live" } }, { offset: 4, ephemeral: true }),
    ]);
    expect(state).toEqual({ open: 1 });
  });
  it("throws what reduce throws, and for a state changed in place", () => {
    expect(() => reduceProcessor(new Counter(), [{ type: "unknown" }])).toThrow("unknown");
    expect(() => reduceProcessor(new Counter(), [{ type: "issue/closed" }])).toThrow(TypeError);
  });
});
