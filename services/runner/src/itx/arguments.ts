/** The argument lists of host calls, hostile JSON in, exact shapes out. Everything wrong is INVALID_INPUT naming the place. */
import type { EventInput, ReadEventsArgs, WaitForEventArgs, WaitUntilProcessedArgs } from "iterate/api";
import { assertExpression, toExpression, withArgs, type Expression, type Json } from "iterate/expression";
import { codedError, type CodedError } from "iterate/lib";
import { maxBatchBytes, maxBatchEvents, maxEventBytes, maxIdempotencyKeyBytes, maxTypeBytes } from "iterate/stream/processor";

type Fields = Readonly<Record<string, unknown>>;

const maxReadLimit = 1_000;
const maxTypes = 100;
export const maxWaitMs = 120_000;
/** The log refuses a pattern of more fields than anyone writes by hand. */
const maxPatternFields = 100;

/** @throws BATCH_TOO_LARGE, EVENT_TOO_LARGE, INVALID_INPUT. */
export function eventInputs(args: readonly unknown[]): EventInput[] {
  if (args.length > maxBatchEvents)
    throw codedError("BATCH_TOO_LARGE", `${args.length} events in one append; at most ${maxBatchEvents} are taken`, {
      events: args.length,
      maxBatchEvents,
    });
  let bytes = 0;
  return args.map((value, index) => {
    const event = eventInput(value, `events[${index}]`);
    const size = bodyBytes(event);
    bytes += size;
    if (size > maxEventBytes)
      throw codedError("EVENT_TOO_LARGE", `events[${index}] has ${size} bytes; at most ${maxEventBytes} are taken`, {
        bytes: size,
        maxEventBytes,
      });
    if (bytes > maxBatchBytes)
      throw codedError("BATCH_TOO_LARGE", `the events have more than ${maxBatchBytes} bytes in one append`, { maxBatchBytes });
    return event;
  });
}

export function readArgs(args: readonly unknown[]): ReadEventsArgs {
  const value = object(only(args, 1)[0] ?? {}, "args");
  return {
    ...optional(value, "afterOffset", (found) => integer(found, "afterOffset", 0, Number.MAX_SAFE_INTEGER)),
    ...optional(value, "limit", (found) => integer(found, "limit", 1, maxReadLimit)),
    ...optional(value, "types", (found) => types(found)),
    ...optional(value, "includeEphemeral", (found) => flag(found, "includeEphemeral")),
  };
}

export function waitArgs(args: readonly unknown[]): WaitForEventArgs & { readonly types: readonly string[] } {
  const value = object(only(args, 1)[0], "args");
  if ((value["type"] === undefined) === (value["types"] === undefined))
    throw wrong("args", "must name exactly one of type and types");
  const wanted = value["types"] === undefined ? [text(value["type"], "type", maxTypeBytes)] : types(value["types"]);
  if (wanted.length === 0) throw wrong("types", "is empty");
  return {
    types: wanted,
    ...optional(value, "payload", pattern),
    ...optional(value, "afterOffset", (found) => integer(found, "afterOffset", 0, Number.MAX_SAFE_INTEGER)),
    ...optional(value, "timeoutMs", (found) => integer(found, "timeoutMs", 1, maxWaitMs)),
  };
}

export function facetName(args: readonly unknown[]): string {
  return text(only(args, 1)[0], "name", 128);
}

export function waitUntilArgs(args: readonly unknown[]): WaitUntilProcessedArgs & { readonly name: string } {
  const [name, rest] = only(args, 2);
  const value = object(rest, "args");
  return {
    name: text(name, "name", 128),
    offset: integer(value["offset"], "offset", 0, Number.MAX_SAFE_INTEGER),
    ...optional(value, "timeoutMs", (found) => integer(found, "timeoutMs", 1, maxWaitMs)),
  };
}

/** The call of `invoke`: an expression, and arguments for its end. Throws INVALID_INPUT, EXPRESSION_TOO_LONG. */
export function calledExpression([given, ...args]: readonly unknown[]): Expression {
  const expression = toExpression(given);
  if (args.length === 0) return expression;
  const whole: unknown = withArgs(expression, args as Json[]);
  assertExpression(whole);
  return whole;
}

/** What `describe` is asked of. Throws as `calledExpression`. */
export function askedExpression(args: readonly unknown[]): Expression | undefined {
  const [given] = only(args, 1);
  return given === undefined ? undefined : toExpression(given);
}

export function none(args: readonly unknown[]): void {
  only(args, 0);
}

/** One event a writer gives; of its source only the processor's label is taken. */
function eventInput(input: unknown, at: string): EventInput {
  const value = object(input, at);
  const source = value["source"] === undefined ? undefined : object(value["source"], `${at}.source`);
  const label = source?.["processor"] === undefined ? undefined : object(source["processor"], `${at}.source.processor`);
  return {
    type: text(value["type"], `${at}.type`, maxTypeBytes),
    ...("payload" in value ? { payload: value["payload"] } : {}),
    ...("metadata" in value ? { metadata: value["metadata"] } : {}),
    ...optional(value, "idempotencyKey", (found) => text(found, `${at}.idempotencyKey`, maxIdempotencyKeyBytes)),
    ...optional(value, "offset", (found) => integer(found, `${at}.offset`, 1, Number.MAX_SAFE_INTEGER)),
    ...optional(value, "ephemeral", (found) => flag(found, `${at}.ephemeral`)),
    ...(label === undefined ? {} : { source: { processor: processorLabel(label, `${at}.source.processor`) } }),
  };
}

function processorLabel(value: Fields, at: string) {
  const handled = value["whileProcessing"] === undefined ? undefined : object(value["whileProcessing"], `${at}.whileProcessing`);
  return {
    slug: text(value["slug"], `${at}.slug`, 63),
    version: text(value["version"], `${at}.version`, 64),
    ...(handled === undefined
      ? {}
      : {
          whileProcessing: {
            offset: integer(handled["offset"], `${at}.whileProcessing.offset`, 1, Number.MAX_SAFE_INTEGER),
            type: text(handled["type"], `${at}.whileProcessing.type`, maxTypeBytes),
          },
        }),
  };
}

/** Bytes of an event's bodies as they will be stored. */
export function bodyBytes({ payload, metadata }: EventInput): number {
  const size = (value: unknown): number => (value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value)));
  return size(payload) + size(metadata);
}

function pattern(input: unknown): Record<string, string | number | boolean | null> {
  const fields = Object.entries(object(input, "payload"));
  if (fields.length > maxPatternFields)
    throw wrong("payload", `has ${fields.length} fields; at most ${maxPatternFields} are compared`);
  for (const [name, value] of fields) {
    if (value !== null && !["string", "number", "boolean"].includes(typeof value))
      throw wrong(`payload.${name}`, "is no plain value");
  }
  return Object.fromEntries(fields) as Record<string, string | number | boolean | null>;
}

function types(input: unknown): string[] {
  if (!Array.isArray(input)) throw wrong("types", "is no list");
  if (input.length > maxTypes) throw wrong("types", `has ${input.length} entries; at most ${maxTypes} are taken`);
  return input.map((type, index) => text(type, `types[${index}]`, maxTypeBytes));
}

function only(args: readonly unknown[], count: number): readonly unknown[] {
  if (args.length > count) throw wrong("args", `has ${args.length} entries; at most ${count} are taken`);
  return args;
}

function object(value: unknown, at: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw wrong(at, "is no object");
  return value as Fields;
}

function text(value: unknown, at: string, maxBytes: number): string {
  if (typeof value !== "string" || value === "" || value.includes("\0") || !value.isWellFormed())
    throw wrong(at, "is no text, or empty, or holds NUL or a lone surrogate");
  if (Buffer.byteLength(value) > maxBytes) throw wrong(at, `is longer than ${maxBytes} bytes`);
  return value;
}

function flag(value: unknown, at: string): boolean {
  if (typeof value !== "boolean") throw wrong(at, "is neither true nor false");
  return value;
}

function integer(value: unknown, at: string, min: number, max: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < min || (value as number) > max)
    throw wrong(at, `is no whole number from ${min} to ${max}`);
  return value as number;
}

function optional<Name extends string, Value>(
  value: Fields,
  name: Name,
  read: (found: unknown) => Value,
): { [Key in Name]?: Value } {
  const found = value[name];
  return found === undefined ? {} : ({ [name]: read(found) } as { [Key in Name]?: Value });
}

function wrong(at: string, problem: string): CodedError {
  return codedError("INVALID_INPUT", `${at} ${problem}`, { field: at });
}
