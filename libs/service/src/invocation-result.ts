/** What a call answers, on the wire: one value, or a stream of items or of bytes. */
import { StreamKind, type ResultPart } from "@iterate-platform/proto/iterate/type/v1/invocation";
import { codedError } from "iterate/lib";
import type { Answer } from "./capability-calls.js";
import { invocationLimits } from "./capability.js";

/**
 * The parts of an answer. A stream is pulled: its next item is asked for when the part before it was taken, and leaving the loop ends
 * it.
 *
 * @throws CodedError RESULT_TOO_LARGE, INTERNAL for what is no JSON, and what the stream throws.
 */
export async function* resultParts(answer: Answer): AsyncGenerator<ResultPart, void> {
  if (answer.kind === "value") {
    yield { part: { $case: "value", value: jsonOf(answer.value, "the answer") } };
    return;
  }
  let kind: StreamKind | null = null;
  for await (const item of answer.items) {
    const isChunk = item instanceof Uint8Array;
    if (kind === null) yield head((kind = isChunk ? StreamKind.STREAM_KIND_CHUNKS : StreamKind.STREAM_KIND_ITEMS));
    yield { part: isChunk ? { $case: "chunk", value: Buffer.from(item) } : { $case: "item", value: jsonOf(item, "an item") } };
  }
  if (kind === null) yield head(StreamKind.STREAM_KIND_ITEMS);
}

/** The answer that parts make. A stream is read as it is asked for; leaving its loop ends the call. */
export async function readResult(parts: AsyncIterable<ResultPart | undefined>): Promise<Answer> {
  const reader = parts[Symbol.asyncIterator]();
  const first = await reader.next();
  const part = first.done === true ? undefined : first.value?.part;
  switch (part?.$case) {
    case "value":
      await reader.return?.();
      return { kind: "value", value: valueOf(part.value) };
    case "head":
      return { kind: "stream", items: itemsOf(reader) };
    default:
      throw codedError("INTERNAL", "the call was answered by nothing, or by a part of a stream that did not begin");
  }
}

async function* itemsOf(reader: AsyncIterator<ResultPart | undefined>): AsyncGenerator<unknown, void> {
  try {
    for (let next = await reader.next(); next.done !== true; next = await reader.next()) {
      const part = next.value?.part;
      if (part?.$case === "item") yield valueOf(part.value);
      else if (part?.$case === "chunk") yield part.value;
      else throw codedError("INTERNAL", "a stream was answered with something else than its parts");
    }
  } finally {
    await reader.return?.();
  }
}

function head(kind: StreamKind): ResultPart {
  return { part: { $case: "head", value: { kind } } };
}

function valueOf(json: Uint8Array): unknown {
  if (json.length === 0) return undefined;
  return JSON.parse(Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString("utf8")) as unknown;
}

function jsonOf(value: unknown, what: string): Buffer {
  const text: string | undefined = JSON.stringify(value);
  const json = text === undefined ? Buffer.alloc(0) : Buffer.from(text);
  if (json.length <= invocationLimits.resultBytes) return json;
  throw codedError(
    "RESULT_TOO_LARGE",
    `${what} has ${json.length} bytes of JSON; at most ${invocationLimits.resultBytes} are answered`,
    { bytes: json.length, limit: invocationLimits.resultBytes },
  );
}
