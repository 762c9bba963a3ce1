/**
 * Identities: public ids, UUIDv7 and the placement of a context. Ids sort by the time they were minted and are never parsed;
 * placement is a pure function of (owner, path), known before any look-up and fixed for ever.
 */
import { hash, randomFillSync } from "node:crypto";

/** Every prefix a public id may have, with what it names. */
export const idPrefixes = {
  prj: "project",
  org: "organization",
  usr: "user",
  tok: "API token",
  ses: "session",
  run: "run",
  dlv: "delivery",
  inv: "invocation",
  bld: "build",
} as const;

export type IdPrefix = keyof typeof idPrefixes;

/** Partitions of the whole system; part of the wire contract. */
export const partitionCount = 256;

/** Subjects of the commit stream; each carries `partitionCount / bucketCount` partitions. */
export const bucketCount = 16;

export interface IdSources {
  /** Wall clock in milliseconds since 1970. */
  readonly nowMs: () => number;
  /** Fills the bytes with unpredictable values. */
  readonly fillRandom: (bytes: Uint8Array) => void;
}

export interface IdGenerator {
  /** A UUIDv7 in canonical lower-case text; later calls of one generator sort after earlier ones. */
  readonly uuidv7: () => string;
  /** `<prefix>_` and a UUIDv7 as 26 lower-case Crockford base32 characters. */
  readonly newId: <Prefix extends IdPrefix>(prefix: Prefix) => `${Prefix}_${string}`;
}

/** Builds a generator on its own clock and randomness; services use `uuidv7` and `newId`, simulations their own generator. */
export function createIdGenerator(sources: IdSources): IdGenerator {
  const next = uuidBytes(sources);
  return {
    uuidv7: () => uuidText(next()),
    newId: (prefix) => `${prefix}_${crockford(next())}`,
  };
}

const system = createIdGenerator({ nowMs: Date.now, fillRandom: pooledRandom(4096) });

export const uuidv7: IdGenerator["uuidv7"] = system.uuidv7;
export const newId: IdGenerator["newId"] = system.newId;

/** The partition 0–255 of a context: the first byte of SHA-256(owner, 0x00, path). */
export function partitionOf(owner: string, path: string): number {
  return hash("sha256", `${owner}\0${path}`, "buffer")[0]!;
}

/** The bucket 0–15 (subject `ctx.<bucket>`) that carries a partition's commits. */
export function bucketOf(partition: number): number {
  return partition >> 4;
}

/**
 * Within one millisecond the 12 bits after the version count up from a random start below 2^11, so at least 2,048 ids keep
 * their order; when the count is used up, or the clock steps back, the last millisecond is carried on by one.
 */
function uuidBytes({ nowMs, fillRandom }: IdSources): () => Uint8Array {
  const bytes = new Uint8Array(16);
  let lastMs = -1;
  let count = 0;
  return () => {
    fillRandom(bytes);
    const now = nowMs();
    if (now > lastMs) {
      lastMs = now;
      count = ((bytes[6]! & 0x07) << 8) | bytes[7]!;
    } else if (++count > 0xfff) {
      lastMs += 1;
      count = ((bytes[6]! & 0x07) << 8) | bytes[7]!;
    }
    let high = lastMs;
    for (let at = 5; at >= 0; at -= 1) {
      bytes[at] = high % 256;
      high = Math.floor(high / 256);
    }
    bytes[6] = 0x70 | (count >> 8);
    bytes[7] = count & 0xff;
    bytes[8] = 0x80 | (bytes[8]! & 0x3f);
    return bytes;
  };
}

function uuidText(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes.buffer, bytes.byteOffset, 16).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";

/** 128 bits as 26 characters, the two missing leading bits zero, so text order is byte order. */
function crockford(bytes: Uint8Array): string {
  let text = "";
  let held = 0;
  let bits = 2;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += alphabet[(held >> bits) & 31];
    }
    held &= (1 << bits) - 1;
  }
  return text;
}

/** One call into the kernel serves many ids. */
function pooledRandom(size: number): (bytes: Uint8Array) => void {
  const pool = new Uint8Array(size);
  let at = size;
  return (bytes) => {
    if (at + bytes.length > size) {
      randomFillSync(pool);
      at = 0;
    }
    bytes.set(pool.subarray(at, at + bytes.length));
    pool.fill(0, at, at + bytes.length);
    at += bytes.length;
  };
}
