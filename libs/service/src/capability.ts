/**
 * Builtin roots: what a service answers below `itx.builtins`, declared so that it can be called and described from one place. A root is
 * a method itself, a group of methods, or both by nesting; every method carries what a caller who knows nothing else needs to use it.
 */
import type { Caller } from "./caller.js";
import type { CallCredentials } from "./trust.js";

/** Whose call it is and where it was resolved. */
export interface CapabilityCall {
  readonly address: { readonly owner: string; readonly path: string };
  /** Path of the context the call started at. */
  readonly callerPath: string;
  readonly caller: Caller;
  /** What proves the caller to another service. */
  readonly credentials: CallCredentials;
  /** Aborts, with a CodedError, when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

/** Checks an argument list: a schema of zod for a list or a tuple is one. */
export interface ArgumentsSchema {
  safeParse(value: unknown):
    | { readonly success: true; readonly data: readonly unknown[] }
    | {
        readonly success: false;
        readonly error: { readonly issues: readonly { readonly path: readonly PropertyKey[]; readonly message: string }[] };
      };
}

/** The arguments a schema lets through. */
export type ArgumentsOf<Schema extends ArgumentsSchema> =
  Extract<ReturnType<Schema["safeParse"]>, { readonly success: true }> extends {
    readonly data: infer Args extends readonly unknown[];
  }
    ? Args
    : never;

export interface MethodWords {
  /** TypeScript: `(key: string) => Promise<Entry | null>`. */
  readonly signature: string;
  /** One sentence. */
  readonly description: string;
  /** A call of it as text, from `itx` on. */
  readonly example: string;
  /** `write` when it may change something. */
  readonly effect: "read" | "write";
}

export interface Method<Call> extends MethodWords {
  readonly kind: "method";
  readonly arguments: ArgumentsSchema;
  /** Answers JSON, nothing (`undefined`), or an async iterable of JSON or bytes. `handle` is what the call before it answered. */
  readonly call: (call: Call, args: readonly unknown[], handle: unknown) => unknown;
  /** Set when what it answers is no JSON but a handle: the methods of that. */
  readonly methods: Members<Call> | null;
}

export interface Group<Call> {
  readonly kind: "group";
  readonly members: Members<Call>;
}

export type Member<Call> = Method<Call> | Group<Call>;
export type Members<Call> = Readonly<Record<string, Member<Call>>>;

export interface BuiltinRoot<Call> {
  /** One step of an expression. */
  readonly name: string;
  /** True when every context answers it by itself; otherwise the root of a project does. */
  readonly isContextRoot: boolean;
  /** One sentence. */
  readonly description: string;
  /** Prose, at most 4,000 characters. */
  readonly instructions: string;
  /** TypeScript declarations of the types its signatures name; empty when there are none. */
  readonly types: string;
  readonly member: Member<Call>;
}

/** A method that answers JSON, nothing or a stream. */
export function method<Call, Schema extends ArgumentsSchema>(
  schema: Schema,
  words: MethodWords,
  run: (call: Call, ...args: ArgumentsOf<Schema>) => unknown,
): Method<Call> {
  return {
    ...words,
    kind: "method",
    arguments: schema,
    call: (call, args) => run(call, ...(args as ArgumentsOf<Schema>)),
    methods: null,
  };
}

/** Makes the methods of a handle. */
export type HandleMethod<Call, Handle> = <Schema extends ArgumentsSchema>(
  schema: Schema,
  words: MethodWords,
  run: (call: Call, handle: Handle, ...args: ArgumentsOf<Schema>) => unknown,
) => Method<Call>;

/** A method that answers a handle, which ends no expression: one of its methods is called next. */
export function handleMethod<Call, Schema extends ArgumentsSchema, Handle>(
  schema: Schema,
  words: MethodWords,
  open: (call: Call, ...args: ArgumentsOf<Schema>) => Handle | Promise<Handle>,
  methods: (ofHandle: HandleMethod<Call, Handle>) => Members<Call>,
): Method<Call> {
  const ofHandle: HandleMethod<Call, Handle> = (inner, innerWords, run) => ({
    ...innerWords,
    kind: "method",
    arguments: inner,
    call: (call, args, handle) => run(call, handle as Handle, ...(args as ArgumentsOf<typeof inner>)),
    methods: null,
  });
  return {
    ...words,
    kind: "method",
    arguments: schema,
    call: (call, args) => open(call, ...(args as ArgumentsOf<Schema>)),
    methods: methods(ofHandle),
  };
}

export function group<Call>(members: Members<Call>): Group<Call> {
  return { kind: "group", members };
}

/** Bounds of one call. */
export const invocationLimits = {
  /** JSON of an answer, or of one item of a stream, in bytes. */
  resultBytes: 8_388_608,
  instructionsChars: 4_000,
} as const;
