import { codedError } from "iterate/lib";
import { expect, test } from "vitest";
import { ImportHandle, maxPieceBytes } from "./import-handle.js";

const imported = {
  project: { id: "prj_a", slug: "a", createdAt: "2030-01-01T00:00:00.000Z", url: "http://a.test/", gitUrl: "http://a.test/a.git" },
  contexts: 1,
  events: 2,
};

function open(start?: ConstructorParameters<typeof ImportHandle>[0]["start"]) {
  const socket = new AbortController();
  const taken: string[] = [];
  let ended = 0;
  const handle = new ImportHandle({
    start:
      start ??
      (async (data) => {
        for await (const piece of data) taken.push(Buffer.from(piece).toString());
        return imported;
      }),
    signal: socket.signal,
    onEnd: () => (ended += 1),
  });
  return { handle, socket, taken, ended: () => ended };
}

test("pieces are taken in order, and the project is answered at the end", async () => {
  const { handle, taken, ended } = open();
  for (const piece of ["a", "b", "", "c"]) await handle.write(Buffer.from(piece));
  expect(await handle.finish()).toEqual(imported);
  expect(taken).toEqual(["a", "b", "", "c"]);
  expect(ended()).toBe(1);
});

test("a piece is answered when it is taken, and none is given before", async () => {
  const go = Promise.withResolvers<void>();
  const { handle } = open(async (data) => {
    for await (const _ of data) await go.promise;
    return imported;
  });
  let isTaken = false;
  const first = handle.write(Buffer.from("a")).then(() => (isTaken = true));
  await new Promise((resolve) => setImmediate(resolve));
  expect(isTaken).toBe(false);
  await expect(handle.write(Buffer.from("b"))).rejects.toMatchObject({ code: "INVALID_INPUT" });
  go.resolve();
  await first;
  await handle.finish();
});

test("what is wrong with the archive is said to whoever writes, and at the end", async () => {
  const { handle, ended } = open(async (data) => {
    for await (const piece of data) if (piece.length === 3) throw codedError("INVALID_INPUT", "line 2 of the archive is damaged");
    return imported;
  });
  await handle.write(Buffer.from("a"));
  await expect(handle.write(Buffer.from("bad"))).rejects.toMatchObject({ message: "line 2 of the archive is damaged" });
  await expect(handle.write(Buffer.from("c"))).rejects.toMatchObject({ code: "INVALID_INPUT" });
  await expect(handle.finish()).rejects.toMatchObject({ code: "INVALID_INPUT" });
  expect(ended()).toBe(1);
});

test.for([
  ["disposed", ({ handle }: ReturnType<typeof open>) => handle[Symbol.dispose]()],
  ["left by its socket", ({ socket }: ReturnType<typeof open>) => socket.abort()],
] as const)("an import that is %s ends without a project", async ([, leave]) => {
  const opened = open();
  await opened.handle.write(Buffer.from("a"));
  leave(opened);
  await expect(opened.handle.finish()).rejects.toMatchObject({ code: "CANCELLED" });
  expect(opened.ended()).toBe(1);
});

test.for([
  [maxPieceBytes - 1, true],
  [maxPieceBytes, true],
  [maxPieceBytes + 1, false],
] as const)("a piece of %i bytes is taken: %s", async ([bytes, isTaken]) => {
  const { handle } = open();
  const written = handle.write(Buffer.alloc(bytes));
  if (isTaken) await written;
  else await expect(written).rejects.toMatchObject({ code: "INVALID_INPUT", data: { limit: maxPieceBytes } });
  await expect(handle.write("text" as never)).rejects.toMatchObject({ code: "INVALID_INPUT" });
  handle[Symbol.dispose]();
});
