/**
 * Arrays as Postgres receives them in binary: the driver passes a Buffer on as a binary parameter, so a column of a whole group
 * goes out as one buffer, and a body that came as bytes is copied into it and never decoded. It is half as expensive, on both
 * ends, as arrays in text.
 *
 * Layout: dimensions, null flag, element type, then length and lower bound of the one dimension; each element is its length (−1 for
 * null) and its bytes. An array without elements has no dimension.
 */
const oid = { bool: 16, bytea: 17, int8: 20, int2: 21, int4: 23, text: 25, uuid: 2950 } as const;

const headerBytes = 20;

function header(elementType: number, length: number, bodyBytes: number): Buffer {
  const buffer = Buffer.allocUnsafe(length === 0 ? 12 : headerBytes + bodyBytes);
  buffer.writeInt32BE(length === 0 ? 0 : 1, 0);
  buffer.writeInt32BE(0, 4);
  buffer.writeInt32BE(elementType, 8);
  if (length > 0) {
    buffer.writeInt32BE(length, 12);
    buffer.writeInt32BE(1, 16);
  }
  return buffer;
}

/** Marks the array as holding nulls. */
function flagNulls(buffer: Buffer): void {
  buffer.writeInt32BE(1, 4);
}

/** Safe integers as int8[]. */
export function int8Array(values: readonly number[]): Buffer {
  const buffer = header(oid.int8, values.length, values.length * 12);
  let at = headerBytes;
  for (const value of values) {
    buffer.writeInt32BE(8, at);
    buffer.writeInt32BE(Math.floor(value / 0x1_0000_0000), at + 4);
    buffer.writeUInt32BE(value >>> 0, at + 8);
    at += 12;
  }
  return buffer;
}

export function int4Array(values: readonly number[]): Buffer {
  const buffer = header(oid.int4, values.length, values.length * 8);
  let at = headerBytes;
  for (const value of values) {
    buffer.writeInt32BE(4, at);
    buffer.writeInt32BE(value, at + 4);
    at += 8;
  }
  return buffer;
}

export function int2Array(values: readonly number[]): Buffer {
  const buffer = header(oid.int2, values.length, values.length * 6);
  let at = headerBytes;
  for (const value of values) {
    buffer.writeInt32BE(2, at);
    buffer.writeInt16BE(value, at + 4);
    at += 6;
  }
  return buffer;
}

export function boolArray(values: readonly boolean[]): Buffer {
  const buffer = header(oid.bool, values.length, values.length * 5);
  let at = headerBytes;
  for (const value of values) {
    buffer.writeInt32BE(1, at);
    buffer[at + 4] = value ? 1 : 0;
    at += 5;
  }
  return buffer;
}

/** Strings, or bytes that are UTF-8 already, as text[]. */
export function textArray(values: readonly (string | Uint8Array | null)[]): Buffer {
  return variableArray(oid.text, values);
}

export function byteaArray(values: readonly (Uint8Array | null)[]): Buffer {
  return variableArray(oid.bytea, values);
}

/** UUIDs of 16 bytes as uuid[]. */
export function uuidArray(values: readonly (Uint8Array | null)[]): Buffer {
  return variableArray(oid.uuid, values);
}

function variableArray(elementType: number, values: readonly (string | Uint8Array | null)[]): Buffer {
  let bodyBytes = 0;
  for (const value of values)
    bodyBytes += 4 + (value === null ? 0 : typeof value === "string" ? Buffer.byteLength(value) : value.length);
  const buffer = header(elementType, values.length, bodyBytes);
  let at = headerBytes;
  for (const value of values) {
    if (value === null) {
      buffer.writeInt32BE(-1, at);
      flagNulls(buffer);
      at += 4;
    } else if (typeof value === "string") {
      const length = buffer.write(value, at + 4);
      buffer.writeInt32BE(length, at);
      at += 4 + length;
    } else {
      buffer.writeInt32BE(value.length, at);
      buffer.set(value, at + 4);
      at += 4 + value.length;
    }
  }
  return buffer;
}

/** `null` when no value is set: a column of nulls costs nothing, since `unnest` pads what is missing. */
export function sparse<Value>(
  values: readonly (Value | null)[],
  encode: (values: readonly (Value | null)[]) => Buffer,
): Buffer | null {
  return values.every((value) => value === null) ? null : encode(values);
}
