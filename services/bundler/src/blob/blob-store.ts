/**
 * Content-addressed blobs in Postgres, in pieces of 1 MiB. A blob is complete only after every stored piece hashed to what was
 * sent, and its whole content is hashed again on each read: what is answered has the digest it was asked by, or it is an error.
 */
import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import type { Queryable } from "@iterate-platform/service/postgres";
import { codedError } from "iterate/lib";
import * as sql from "./blob.sql.js";

export const chunkBytes = 1024 * 1024;

/** How long a blob that nothing names yet is kept for its writer. */
const sweepAgeS = 3600;
const sweepLimit = 100;

/** What a blob is made from; read twice, so it must not change meanwhile. */
interface Content {
  readonly size: number;
  chunk(index: number): Promise<Uint8Array>;
}

export class BlobStore {
  readonly #db: Queryable;

  constructor(db: Queryable) {
    this.#db = db;
  }

  /** Stores the bytes and answers their SHA-256 as hex. Safe to repeat. Throws UNAVAILABLE when Postgres is away. */
  put(data: Uint8Array): Promise<string> {
    return this.#put({
      size: data.byteLength,
      chunk: (index) => Promise.resolve(data.subarray(index * chunkBytes, (index + 1) * chunkBytes)),
    });
  }

  /** Stores a file without holding it in memory. */
  async putFile(path: string): Promise<string> {
    const file = await open(path, "r");
    try {
      const { size } = await file.stat();
      const chunk = async (index: number): Promise<Uint8Array> => {
        const length = Math.min(chunkBytes, size - index * chunkBytes);
        const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, index * chunkBytes);
        if (bytesRead !== length) throw codedError("INTERNAL", `a file of ${size} bytes became shorter while it was stored`);
        return buffer;
      };
      return await this.#put({ size, chunk });
    } finally {
      await file.close();
    }
  }

  /**
   * The pieces of a blob in order. Ends with INTERNAL, after the last piece, when they do not have the digest: use none of them
   * before the end. Throws NOT_FOUND when there is no such blob.
   */
  async *read(digest: string): AsyncGenerator<Buffer, void> {
    const key = Buffer.from(digest, "hex");
    const size = await sql.blobSize(this.#db, key);
    if (size === undefined) throw codedError("NOT_FOUND", `there is no blob ${digest}`, { digest });
    const sum = createHash("sha256");
    for (let index = 0; index < chunkCount(size); index += 1) {
      const data = await sql.getChunk(this.#db, key, index);
      if (data === undefined) return await this.#doubt(digest);
      sum.update(data);
      yield data;
    }
    if (sum.digest("hex") !== digest) await this.#doubt(digest);
  }

  /** The whole blob, at most `maxBytes`. Errors as `read`. */
  async readAll(digest: string, maxBytes: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    let bytes = 0;
    for await (const piece of this.read(digest)) {
      bytes += piece.byteLength;
      if (bytes > maxBytes) throw codedError("INTERNAL", `blob ${digest} has more than ${maxBytes} bytes`);
      pieces.push(piece);
    }
    return Buffer.concat(pieces);
  }

  /** Removes some blobs that nothing names; answers how many. */
  sweep(): Promise<number> {
    return sql.sweepBlobs(this.#db, sweepAgeS, sweepLimit);
  }

  async #put(content: Content): Promise<string> {
    const sum = createHash("sha256");
    const sums: Buffer[] = [];
    for (let index = 0; index < chunkCount(content.size); index += 1) {
      const data = await content.chunk(index);
      sum.update(data);
      sums.push(createHash("sha256").update(data).digest());
    }
    const key = sum.digest();
    if (await sql.touchBlob(this.#db, key, content.size)) return key.toString("hex");
    for (const [index, expected] of sums.entries()) {
      const stored = await sql.putChunk(this.#db, key, index, await content.chunk(index));
      if (!stored.equals(expected))
        throw codedError("INTERNAL", `piece ${index} of blob ${key.toString("hex")} was not stored as it was sent`);
    }
    await sql.completeBlob(this.#db, key);
    return key.toString("hex");
  }

  async #doubt(digest: string): Promise<never> {
    await sql.doubtBlob(this.#db, Buffer.from(digest, "hex"));
    throw codedError("INTERNAL", `the stored content of blob ${digest} does not have that digest`, { digest });
  }
}

const chunkCount = (size: number): number => Math.ceil(size / chunkBytes);
