import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startRepoHost, type RepoHost } from "../api/repo-host.fixture.js";
import { chunkBytes } from "./blob-store.js";

const database = useTestDatabase();
let host: RepoHost;
beforeAll(async () => void (host = await startRepoHost(database.url)));
afterAll(() => host.stop());

const bytes = (size: number, seed: number) =>
  Buffer.from(Array.from({ length: 64 }, (_, at) => (at * 7 + seed) % 256))
    .toString("latin1")
    .repeat(Math.ceil(size / 64))
    .slice(0, size);
const sha256 = (data: string | Buffer) => createHash("sha256").update(data).digest("hex");

describe("a blob", () => {
  it.each([0, 1, chunkBytes - 1, chunkBytes, chunkBytes + 1, 3 * chunkBytes + 5])(
    "of %i bytes comes back by its digest",
    async (size) => {
      const data = Buffer.from(bytes(size, 1), "latin1");
      const digest = await host.blobs.put(data);
      expect(digest).toBe(sha256(data));
      expect((await host.blobs.readAll(digest, size)).equals(data)).toBe(true);
    },
  );

  it("is the same from a file", async () => {
    const folder = mkdtempSync(join(tmpdir(), "blob-test-"));
    const data = Buffer.from(bytes(2 * chunkBytes + 9, 2), "latin1");
    writeFileSync(join(folder, "file"), data);
    expect(await host.blobs.putFile(join(folder, "file"))).toBe(sha256(data));
    expect((await host.blobs.readAll(sha256(data), data.length)).equals(data)).toBe(true);
    rmSync(folder, { recursive: true });
  });

  it("whose stored bytes changed is an error, never an answer, and can be stored anew", async () => {
    const data = Buffer.from("what was written");
    const digest = await host.blobs.put(data);
    await host.db.query("update blob_chunk set data = 'something else' where digest = $1", [Buffer.from(digest, "hex")]);
    await expect(host.blobs.readAll(digest, 100)).rejects.toMatchObject({ code: "INTERNAL" });
    await expect(host.blobs.readAll(digest, 100)).rejects.toMatchObject({ code: "NOT_FOUND" });
    await host.blobs.put(data);
    expect((await host.blobs.readAll(digest, 100)).equals(data)).toBe(true);
  });

  it("may be stored by many at once", async () => {
    const data = Buffer.from(bytes(2 * chunkBytes, 3), "latin1");
    const digests = await Promise.all(Array.from({ length: 4 }, () => host.blobs.put(data)));
    expect(new Set(digests)).toEqual(new Set([sha256(data)]));
    expect((await host.blobs.readAll(digests[0]!, data.length)).equals(data)).toBe(true);
  });

  it("that nothing names is removed once it is old, and not before", async () => {
    const digest = await host.blobs.put(Buffer.from("orphan"));
    await host.blobs.sweep();
    expect((await host.blobs.readAll(digest, 100)).toString()).toBe("orphan");
    await host.db.query("update blob set touched_at = now() - interval '61 minutes' where digest = $1", [
      Buffer.from(digest, "hex"),
    ]);
    expect(await host.blobs.sweep()).toBe(1);
    await expect(host.blobs.readAll(digest, 100)).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect((await host.db.query("select 1 from blob_chunk where digest = $1", [Buffer.from(digest, "hex")])).rows).toEqual([]);
  });
});
