/** The frames of a processor batch as the runner reads them: hostile JSON in, exactly the shapes of the engine out. */
import { codedError, isErrorCode, type CodedError } from "iterate/lib";
import {
  maxBatchEvents,
  maxIdempotencyKeyBytes,
  maxTypeBytes,
  type BackgroundFailure,
  type BatchAnswer,
  type CheckpointAnswer,
  type EventInput,
  type ProcessorSource,
  type SettledAnswer,
} from "iterate/stream/processor";

type Json = Readonly<Record<string, unknown>>;

/** @throws ISOLATE_OUTPUT naming the field that is not of its shape. Fields of no meaning are dropped. */
export function parseBatchFrame(frame: Uint8Array): BatchAnswer {
  const value = object(parseJson(frame), "frame");
  if (value["kind"] === "checkpoint") return checkpoint(value);
  if (value["kind"] === "settled") return settled(value);
  throw wrong("frame.kind", value["kind"]);
}

/** Any JSON text. @throws ISOLATE_OUTPUT. */
export function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw codedError("ISOLATE_OUTPUT", "The process answered something that is not JSON.");
  }
}

function checkpoint(value: Json): CheckpointAnswer {
  if (!Object.hasOwn(value, "state")) throw wrong("frame.state", undefined);
  return {
    kind: "checkpoint",
    version: text(value["version"], "frame.version", 64),
    offset: count(value["offset"], "frame.offset"),
    state: value["state"],
    emits: list(value["emits"], "frame.emits", maxBatchEvents).map((event, i) => eventInput(event, `frame.emits[${i}]`)),
    backgroundCount: count(value["backgroundCount"], "frame.backgroundCount"),
  };
}

function settled(value: Json): SettledAnswer {
  const failures = list(value["failures"], "frame.failures", 10_000);
  return { kind: "settled", failures: failures.map((failure, i) => backgroundFailure(failure, `frame.failures[${i}]`)) };
}

function backgroundFailure(input: unknown, at: string): BackgroundFailure {
  const value = object(input, at);
  const { code, offset } = value;
  return {
    offset: offset === null ? null : count(offset, `${at}.offset`),
    code: isErrorCode(code) && !code.startsWith("ISOLATE_") ? code : "CODE_FAILED",
    message: String(value["message"]).slice(0, 2_000),
  };
}

/** Payload and metadata are any JSON; what they may hold is checked where they are appended. */
function eventInput(input: unknown, at: string): EventInput {
  const value = object(input, at);
  const source = value["source"] === undefined ? undefined : object(value["source"], `${at}.source`);
  return {
    type: text(value["type"], `${at}.type`, maxTypeBytes),
    ...("payload" in value ? { payload: value["payload"] } : {}),
    ...("metadata" in value ? { metadata: value["metadata"] } : {}),
    ...(value["idempotencyKey"] === undefined
      ? {}
      : { idempotencyKey: text(value["idempotencyKey"], `${at}.idempotencyKey`, maxIdempotencyKeyBytes) }),
    ...(value["offset"] === undefined ? {} : { offset: count(value["offset"], `${at}.offset`) }),
    ...(source?.["processor"] === undefined
      ? {}
      : { source: { processor: processorSource(source["processor"], `${at}.source.processor`) } }),
  };
}

function processorSource(input: unknown, at: string): ProcessorSource {
  const value = object(input, at);
  const handled = value["whileProcessing"] === undefined ? undefined : object(value["whileProcessing"], `${at}.whileProcessing`);
  return {
    slug: text(value["slug"], `${at}.slug`, 63),
    version: text(value["version"], `${at}.version`, 64),
    ...(handled === undefined
      ? {}
      : {
          whileProcessing: {
            offset: count(handled["offset"], `${at}.whileProcessing.offset`),
            type: text(handled["type"], `${at}.whileProcessing.type`, maxTypeBytes),
          },
        }),
  };
}

function object(value: unknown, at: string): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw wrong(at, value);
  return value as Json;
}

function list(value: unknown, at: string, most: number): readonly unknown[] {
  if (!Array.isArray(value)) throw wrong(at, value);
  if (value.length > most) throw codedError("ISOLATE_OUTPUT", `${at} has ${value.length} items; at most ${most} are taken.`);
  return value;
}

function text(value: unknown, at: string, maxBytes: number): string {
  if (typeof value !== "string" || value === "" || Buffer.byteLength(value) > maxBytes) throw wrong(at, value);
  return value;
}

function count(value: unknown, at: string): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw wrong(at, value);
  return value as number;
}

function wrong(at: string, value: unknown): CodedError {
  const seen =
    typeof value === "string"
      ? JSON.stringify(value.slice(0, 80))
      : typeof value === "number"
        ? String(value)
        : value === null
          ? "null"
          : Array.isArray(value)
            ? "a list"
            : typeof value;
  return codedError("ISOLATE_OUTPUT", `The process answered ${seen} as ${at}.`);
}
