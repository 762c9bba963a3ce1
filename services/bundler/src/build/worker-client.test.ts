import { describe, expect, it } from "vitest";
import { buildLimits, type BuildLimits } from "./contract.js";
import { unpackEnvelope, packEnvelope } from "./envelope.js";
import { FileCollector, pieceBytes, pieces } from "./worker-client.js";

function collect(files: readonly { path: string; size: number }[], limits: Partial<BuildLimits> = {}) {
  const collector = new FileCollector({ ...buildLimits, ...limits });
  for (const { path, size } of files)
    for (const piece of pieces(Buffer.alloc(size, "x"))) collector.take({ path, symlink: false, ...piece });
  return collector.files.map((file) => [file.path, file.data.byteLength]);
}

describe("the files of a job", () => {
  it.each([0, 1, pieceBytes - 1, pieceBytes, pieceBytes + 1, 3 * pieceBytes])("come whole in pieces: %i bytes", (size) => {
    expect(
      collect([
        { path: "a", size },
        { path: "b", size: 3 },
      ]),
    ).toEqual([
      ["a", size],
      ["b", 3],
    ]);
  });

  it("are as many, as large and named as long as the limits say, and no more", () => {
    const two = [
      { path: "aa", size: 5 },
      { path: "bb", size: 5 },
    ];
    expect(collect(two, { maxFiles: 2, maxSourceBytes: 10, maxPathBytes: 2 })).toHaveLength(2);
    expect(() => collect(two, { maxFiles: 1 })).toThrow(/more than 1 files/);
    expect(() => collect(two, { maxSourceBytes: 9 })).toThrow(/more than 9 bytes/);
    expect(() => collect(two, { maxPathBytes: 1 })).toThrow(/longer than 1 bytes/);
  });

  it("are refused when one begins before the other ended", () => {
    const collector = new FileCollector(buildLimits);
    collector.take({ path: "a", symlink: false, data: Buffer.from("1"), last: false });
    expect(() => collector.take({ path: "b", symlink: false, data: Buffer.from("2"), last: true })).toThrow(
      /the file "a" has no last piece/,
    );
  });
});

describe("the message between a worker and its job", () => {
  const whole = Buffer.concat(packEnvelope({ header: { a: 1 }, parts: [Buffer.from("xy"), Buffer.alloc(0), Buffer.from("z")] }));

  it("comes back as it was", () => {
    const { header, parts } = unpackEnvelope(whole);
    expect(header).toEqual({ a: 1 });
    expect(parts.map(String)).toEqual(["xy", "", "z"]);
  });

  it("is refused when it is cut, too long or lies about its lengths", () => {
    for (let length = 0; length < whole.length; length += 1)
      expect(() => unpackEnvelope(whole.subarray(0, length))).toThrow(/no message/);
    expect(() => unpackEnvelope(Buffer.concat([whole, Buffer.from("!")]))).toThrow(/no message/);
    for (const lengths of [[-1, 4], [1.5, 1.5], [2 ** 60], "3"]) {
      const json = Buffer.from(JSON.stringify({ header: {}, lengths }));
      const head = Buffer.alloc(4);
      head.writeUInt32BE(json.length);
      expect(() => unpackEnvelope(Buffer.concat([head, json, Buffer.from("abc")]))).toThrow(/no message/);
    }
  });
});
