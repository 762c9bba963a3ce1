/**
 * What a processor promises before it runs: its name and version, the shape of its state, the events it takes and the events it may
 * write. The engine holds the processor to it; the platform reads it for validation, descriptions and evolution checks.
 */
import type { z } from "zod";
import { eventCatalog, isPlatformType } from "../events/index.js";
import { answerProblem } from "../events/vocabulary.js";
import { codedError } from "../lib/coded-error.js";
import type { EventInput, StreamEvent } from "./event.js";
import { eventTypeProblem } from "./event-type.js";

export type EventSchemas = Readonly<Record<string, z.ZodType>>;

/** What `defineProcessorContract` takes. */
export interface ProcessorContractDefinition<
  State extends z.ZodType,
  Events extends EventSchemas,
  Consumes extends readonly string[] | "*",
  Emits extends readonly string[],
  Deps extends readonly AnyProcessorContract[],
> {
  /** Lower-case kebab-case, at most 63 characters; it names the processor in sources and idempotency keys. */
  readonly slug: string;
  /** Any change of `reduce` or of the state's shape needs another version: the state is then folded again from the log. */
  readonly version: string;
  readonly description: string;
  /** Must accept `{}`, which gives the state before the first event. The state must be JSON. */
  readonly stateSchema: State;
  /** Payload schemas of the types this contract defines. A type without a schema is taken and written unchecked. */
  readonly events?: Events;
  /** The types handed to the processor, or `"*"` for every durable event of the context. */
  readonly consumes: Consumes;
  /** The types it may write with `append` and `emit`. */
  readonly emits: Emits;
  /** Contracts whose event schemas this one uses without defining them. */
  readonly processorDeps?: Deps;
}

export interface ProcessorContract<State, Consumed, Emitted, Events extends EventSchemas> {
  readonly slug: string;
  readonly version: string;
  readonly description: string;
  readonly stateSchema: z.ZodType;
  readonly events: Events;
  readonly consumes: readonly string[] | "*";
  readonly emits: readonly string[];
  /** Schemas by type, those of `processorDeps` included. */
  readonly schemas: ReadonlyMap<string, z.ZodType>;
  /** Carries the types below; never present at run time. */
  readonly "~types"?: { readonly state: State; readonly consumed: Consumed; readonly emitted: Emitted };
}

// The type parameters of a contract nobody has named yet are free: `any` lets every contract stand for it.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type AnyProcessorContract = ProcessorContract<any, any, any, any>;

type TypesOf<C extends AnyProcessorContract> = NonNullable<C["~types"]>;

/** The state that a processor of this contract folds. */
export type ProcessorState<C extends AnyProcessorContract> = TypesOf<C>["state"];
/** The events it is handed, as a union by `type`; payloads are the schemas' output. */
export type ConsumedEvent<C extends AnyProcessorContract> = TypesOf<C>["consumed"];
/** The events it may write, as a union by `type`; payloads are the schemas' input. */
export type EmittedEventInput<C extends AnyProcessorContract> = TypesOf<C>["emitted"];

/** A committed event whose payload was checked, so it is present. */
export interface CheckedEvent<Type extends string, Payload> extends StreamEvent<Type, Payload> {
  readonly payload: Payload;
}

type AllSchemas<Events, Deps> = Events &
  UnionToIntersection<Deps extends readonly (infer D)[] ? (D extends { events: infer E } ? E : never) : never>;
type UnionToIntersection<U> = [U] extends [never]
  ? unknown
  : (U extends unknown ? (u: U) => void : never) extends (i: infer I) => void
    ? I
    : never;
// A type without a schema has whatever payload its writer gave it; the reader of the contract decides what to believe.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Unchecked = any;
type Consumed<Types, Schemas> = Types extends readonly (infer T extends string)[]
  ? { [K in T]: K extends keyof Schemas ? CheckedEvent<K, z.output<Schemas[K]>> : CheckedEvent<K, Unchecked> }[T]
  : CheckedEvent<string, Unchecked>;
type Emitted<Types extends readonly string[], Schemas> = {
  [K in Types[number]]: K extends keyof Schemas ? EventInput<K, z.input<Schemas[K]>> : EventInput<K, Unchecked>;
}[Types[number]];

/** Throws INVALID_INPUT, naming what is wrong, when the definition cannot be run. */
export function defineProcessorContract<
  State extends z.ZodType,
  const Consumes extends readonly string[] | "*",
  const Emits extends readonly string[],
  // eslint-disable-next-line @typescript-eslint/no-empty-object-type -- no events: no known keys
  const Events extends EventSchemas = {},
  const Deps extends readonly AnyProcessorContract[] = readonly [],
>(
  definition: ProcessorContractDefinition<State, Events, Consumes, Emits, Deps>,
): ProcessorContract<
  z.output<State>,
  Consumed<Consumes, AllSchemas<Events, Deps>>,
  Emitted<Emits, AllSchemas<Events, Deps>>,
  Events
> {
  const { slug, version, description, stateSchema, consumes, emits } = definition;
  const refuse = (problem: string): never => {
    throw codedError("INVALID_INPUT", `processor contract ${JSON.stringify(slug)}: ${problem}`, { slug });
  };

  if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(slug) || slug.length > 63)
    refuse("the slug must be lower-case kebab-case of at most 63 characters");
  if (version.trim() === "" || version.length > 64) refuse("the version must have 1 to 64 characters");

  const events = definition.events ?? ({} as Events);
  const schemas = new Map<string, z.ZodType>();
  const sources: readonly { readonly slug: string; readonly events: EventSchemas }[] = [
    ...(definition.processorDeps ?? []),
    { slug, events },
  ];
  for (const source of sources) {
    for (const [type, schema] of Object.entries(source.events)) {
      if (schemas.has(type) && schemas.get(type) !== schema)
        refuse(`the type ${JSON.stringify(type)} is defined twice, the second time by ${JSON.stringify(source.slug)}`);
      if (isOfPlatform(type, schema))
        refuse(`the type ${JSON.stringify(type)} is defined by the platform; consume or emit it instead`);
      schemas.set(type, schema);
    }
  }

  for (const type of [...schemas.keys(), ...(consumes === "*" ? [] : consumes), ...emits]) {
    const problem = type === "*" ? `must be named, or write consumes: "*" for all` : eventTypeProblem(type);
    if (problem !== null) refuse(`the type ${JSON.stringify(type)} ${problem}`);
  }
  for (const type of Object.keys(events).filter(isPlatformType)) {
    const problem = answerProblem({ type, answeredBy: [] }, (other) => schemas.has(other) || eventCatalog.has(other));
    if (problem !== null) refuse(`the type ${JSON.stringify(type)} ${problem}`);
  }
  if (!stateSchema.safeParse({}).success) refuse("the stateSchema must accept {}; give every field a default");

  return { slug, version, description, stateSchema, events, consumes, emits, schemas };
}

/** True when the platform's own contract defines the type, and by another schema. */
function isOfPlatform(type: string, schema: z.ZodType): boolean {
  const declared = eventCatalog.get(type);
  return declared !== undefined && declared.payload !== schema;
}

/** The state before the first event. */
export function initialState<C extends AnyProcessorContract>(contract: C): ProcessorState<C> {
  return contract.stateSchema.parse({});
}

/** True when the contract takes the event: a named type always, `"*"` every durable one. */
export function consumesEvent(contract: AnyProcessorContract, event: StreamEvent): boolean {
  return contract.consumes === "*" ? event.ephemeral !== true : contract.consumes.includes(event.type);
}

/** A payload as the contract's schema makes it, or what the schema says against it. */
export type CheckedPayload =
  { readonly kind: "valid"; readonly payload: unknown } | { readonly kind: "malformed"; readonly error: Error };

/** Checks a payload by the contract's schema; an absent one is checked as `{}`. A type without a schema is valid as it is. */
export function checkPayload(
  contract: AnyProcessorContract,
  { type, payload }: { readonly type: string; readonly payload?: unknown },
): CheckedPayload {
  const schema = contract.schemas.get(type);
  if (schema === undefined) return { kind: "valid", payload };
  try {
    const parsed = schema.safeParse(payload === undefined ? {} : payload);
    if (parsed.success) return { kind: "valid", payload: parsed.data };
    const problems = parsed.error.issues.map((issue) => `${issue.path.map(String).join(".") || "payload"}: ${issue.message}`);
    return { kind: "malformed", error: new Error(problems.join("; ")) };
  } catch (thrown) {
    // A schema that throws by itself (an async refinement, a failing transform) decides nothing about the payload.
    return { kind: "malformed", error: thrown instanceof Error ? thrown : new Error(String(thrown)) };
  }
}
