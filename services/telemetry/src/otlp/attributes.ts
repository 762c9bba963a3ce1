/** Attributes as they are kept: one JSON object within bounds, and what the platform reads from it. */
import type { AnyValue, KeyValue } from "@iterate-platform/proto/opentelemetry/proto/common/v1/common";
import {
  maxAttributes,
  maxAttributesLength,
  maxDepth,
  maxKeyLength,
  maxOwnerLength,
  maxPathLength,
  maxValueLength,
} from "../limits.js";

export interface Attributes {
  /** A JSON object. `iterate.attributes_dropped` counts what did not fit. */
  readonly json: string;
  /** The project; empty when none is named, or one that cannot be. */
  readonly owner: string;
  /** The context; empty when none is named. */
  readonly context: string;
}

const none: Attributes = { json: "{}", owner: "", context: "" };

/** Read for every span: one pass, no intermediate collections. The first of two attributes of one name counts. */
export function attributesOf(list: readonly KeyValue[]): Attributes {
  if (list.length === 0) return none;
  const kept: string[] = [];
  let json = "{";
  let [owner, iterateOwner, context] = ["", "", ""];
  for (const { key, value } of list) {
    if (kept.length >= maxAttributes || key === "" || key.length > maxKeyLength || kept.includes(key)) continue;
    const text = jsonOf(value, 0);
    if (json.length + key.length + text.length + 4 > maxAttributesLength) continue;
    json += `${kept.length === 0 ? "" : ","}${JSON.stringify(key)}:${text}`;
    kept.push(key);
    if (key === "owner") owner = nameIn(value, maxOwnerLength);
    else if (key === "iterate.owner") iterateOwner = nameIn(value, maxOwnerLength);
    else if (key === "context") context = nameIn(value, maxPathLength);
  }
  const dropped = list.length - kept.length;
  if (dropped > 0) json += `${kept.length === 0 ? "" : ","}"iterate.attributes_dropped":${dropped}`;
  return { json: `${json}}`, owner: owner || iterateOwner, context };
}

/** A text that names something; empty when it is longer than it may be, for a cut name is another's. */
function nameIn(any: AnyValue | undefined, maxLength: number): string {
  const value = any?.value;
  return value?.$case === "stringValue" && value.value.length <= maxLength && !value.value.includes("\0") ? value.value : "";
}

/** The JSON of a value, its texts cut. */
export function jsonOf(any: AnyValue | undefined, depth: number): string {
  const value = any?.value;
  switch (value?.$case) {
    case "stringValue":
      return JSON.stringify(cut(value.value));
    case "boolValue":
      return value.value ? "true" : "false";
    case "intValue":
      return isSafe(value.value) ? value.value.toString() : `"${value.value}"`;
    case "doubleValue":
      return Number.isFinite(value.value) ? JSON.stringify(value.value) : `"${value.value}"`;
    case "bytesValue":
      return JSON.stringify(cut(Buffer.from(value.value.subarray(0, maxValueLength)).toString("base64")));
    case "arrayValue":
      if (depth >= maxDepth) return '"[deep]"';
      return `[${within(value.value.values, (item) => jsonOf(item, depth + 1)).join(",")}]`;
    case "kvlistValue":
      if (depth >= maxDepth) return '"[deep]"';
      return `{${within(value.value.values, ({ key, value: member }) => `${JSON.stringify(cut(key))}:${jsonOf(member, depth + 1)}`).join(",")}}`;
    default:
      return "null";
  }
}

/** As many items as one value may hold. */
function within<Item>(items: readonly Item[], format: (item: Item) => string): string[] {
  const texts: string[] = [];
  let length = 0;
  for (const item of items) {
    const text = format(item);
    length += text.length + 1;
    if (length > maxValueLength) break;
    texts.push(text);
  }
  return texts;
}

function cut(text: string): string {
  return text.length <= maxValueLength ? text : `${text.slice(0, maxValueLength - 1)}…`.toWellFormed();
}

function isSafe(value: bigint): boolean {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) && value >= BigInt(Number.MIN_SAFE_INTEGER);
}
