/**
 * How a build worker and its job's process hand each other one message: a JSON header and the byte strings it counts, read once
 * the pipe has ended. The header is not trusted: lengths must add up to exactly what was sent.
 */
import { codedError } from "iterate/lib";

export interface Envelope<Header> {
  readonly header: Header;
  readonly parts: readonly Uint8Array[];
}

/** Pieces to write one after the other. */
export function packEnvelope<Header>({ header, parts }: Envelope<Header>): Uint8Array[] {
  const json = Buffer.from(JSON.stringify({ header, lengths: parts.map((part) => part.byteLength) }));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(json.byteLength);
  return [length, json, ...parts];
}

/** Throws INTERNAL when the bytes are not one whole envelope. */
export function unpackEnvelope<Header>(bytes: Buffer): Envelope<Header> {
  const broken = (): never => {
    throw codedError("INTERNAL", `a job's process sent ${bytes.byteLength} bytes that are no message`);
  };
  if (bytes.byteLength < 4) return broken();
  let at = 4 + bytes.readUInt32BE(0);
  if (at > bytes.byteLength) return broken();
  let parsed: { header: Header; lengths: unknown };
  try {
    parsed = JSON.parse(bytes.toString("utf8", 4, at)) as typeof parsed;
  } catch {
    return broken();
  }
  if (!Array.isArray(parsed.lengths)) return broken();
  const parts = (parsed.lengths as unknown[]).map((length) => {
    if (typeof length !== "number" || !Number.isSafeInteger(length) || length < 0 || at + length > bytes.byteLength)
      return broken();
    const part = bytes.subarray(at, at + length);
    at += length;
    return part;
  });
  return at === bytes.byteLength ? { header: parsed.header, parts } : broken();
}
