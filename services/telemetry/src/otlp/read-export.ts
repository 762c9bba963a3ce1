/**
 * The items of an export request one by one, each with the service that sent it, so that a request of many small items never exists as
 * objects all at once. Throws INVALID_INPUT at the first thing that is not OTLP.
 */
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { Resource } from "@iterate-platform/proto/opentelemetry/proto/resource/v1/resource";
import { codedError } from "iterate/lib";
import { bounded, maxServiceLength } from "../limits.js";
import type { SignalShape } from "./signal.js";

export type Encoding = "protobuf" | "json";

export interface Exported<Item> {
  readonly service: string;
  readonly item: Item;
}

export function readExport<Item>(shape: SignalShape<Item>, encoding: Encoding, body: Uint8Array): Iterable<Exported<Item>> {
  return encoding === "protobuf" ? protobufItems(shape, body) : jsonItems(shape, body);
}

const resourcesField = 1;
const resourceField = 1;
const scopesField = 2;
const itemsField = 2;

function* protobufItems<Item>(shape: SignalShape<Item>, body: Uint8Array): Generator<Exported<Item>> {
  const reader = new BinaryReader(body);
  try {
    for (const resourceEnd of nested(reader, reader.len, resourcesField)) {
      const service = serviceIn(reader, resourceEnd);
      for (const scopeEnd of nested(reader, resourceEnd, scopesField)) {
        for (const itemEnd of nested(reader, scopeEnd, itemsField))
          yield { service, item: shape.decode(reader, itemEnd - reader.pos) };
      }
    }
  } catch (error) {
    throw notOtlp("protobuf", error);
  }
}

/** Stops at each message in `field`, and answers where it ends. Whoever asks for the next has read to that end. */
function* nested(reader: BinaryReader, end: number, field: number): Generator<number> {
  while (reader.pos < end) {
    const [number, type] = reader.tag();
    if (number !== field || type !== WireType.LengthDelimited) {
      reader.skip(type, number);
      continue;
    }
    const length = reader.uint32();
    const stop = reader.pos + length;
    if (stop > end) throw new RangeError("a message is longer than what holds it");
    yield stop;
    if (reader.pos !== stop) throw new RangeError("a message does not end where it says");
  }
  if (reader.pos !== end) throw new RangeError("a field is longer than what holds it");
}

/** The service named by the resource of the message that ends at `end`, wherever in it the resource stands. */
function serviceIn(reader: BinaryReader, end: number): string {
  const start = reader.pos;
  let service = "";
  for (const stop of nested(reader, end, resourceField)) service = serviceOf(Resource.decode(reader, stop - reader.pos));
  reader.pos = start;
  return service;
}

function* jsonItems<Item>(shape: SignalShape<Item>, body: Uint8Array): Generator<Exported<Item>> {
  const [resources, scopes, items] = shape.members;
  try {
    const request: unknown = JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("utf8"));
    for (const resource of list(object(request), resources)) {
      const service = serviceOf(Resource.fromJSON(resource["resource"] ?? {}));
      for (const scope of list(resource, scopes)) {
        for (const item of list(scope, items)) yield { service, item: shape.fromJson(item) };
      }
    }
  } catch (error) {
    throw notOtlp("JSON", error);
  }
}

type JsonObject = Readonly<Record<string, unknown>>;

function object(value: unknown): JsonObject {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new TypeError("an object is expected");
  return value as JsonObject;
}

function list(holder: JsonObject, name: string): JsonObject[] {
  const value = holder[name] ?? [];
  if (!Array.isArray(value)) throw new TypeError(`${name} is not a list`);
  return value.map(object);
}

function serviceOf(resource: Resource): string {
  const value = resource.attributes.find(({ key }) => key === "service.name")?.value?.value;
  return value?.$case === "stringValue" ? bounded(value.value, maxServiceLength) : "";
}

function notOtlp(encoding: string, cause: unknown): Error {
  const reason = cause instanceof Error ? cause.message.slice(0, 200) : "unknown";
  return codedError("INVALID_INPUT", `the body is not an OTLP request in ${encoding}: ${reason}`);
}
