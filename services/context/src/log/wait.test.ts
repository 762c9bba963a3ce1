import { isCodedError } from "iterate/lib";
import { migrate } from "@iterate-platform/service/migrations";
import { eventually, useNats, useTestDatabase } from "@iterate-platform/testing";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { Pod } from "../publish/pod.fixture.js";
import type { ContextAddress } from "./contract.js";
import { PayloadMatch } from "./payload-match.js";
import type { WrittenEvent } from "./sql-log.fixture.js";

const database = useTestDatabase();
const nats = useNats({ jetstream: true });
beforeAll(async () => {
  await migrate({ url: database.url, dir: new URL("../../migrations", import.meta.url).pathname });
});

let one: Pod;
let two: Pod;
beforeEach(async () => {
  one = new Pod(database.url, nats.url);
  two = new Pod(database.url, nats.url);
  await eventually(() => one.broker.status() === "connected" && two.broker.status() === "connected");
});
afterEach(async () => {
  for (const pod of [one, two]) {
    expect(pod.waits.count).toBe(0);
    expect(pod.news.hub.counts.listeners).toBe(0);
  }
  await Promise.all([one.close(), two.close()]);
});

let contexts = 0;
const newContext = (): ContextAddress => ({ owner: "prj_wait", path: `/wait/${++contexts}` });
const asked = (n: number): WrittenEvent => ({ type: "test/asked", payload: `{"n":${n},"x":{"y":[1]}}` });
const other: WrittenEvent = { type: "test/other" };

interface Wanted {
  readonly after?: number;
  readonly payload?: string;
  readonly types?: readonly string[];
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}
const wait = async (
  pod: Pod,
  address: ContextAddress,
  { after, payload, types = ["test/asked"], timeoutMs = 10_000, signal = new AbortController().signal }: Wanted = {},
): Promise<number> =>
  Number(
    (
      await pod.waits.wait(
        { address, types, payload: payload === undefined ? undefined : new PayloadMatch(Buffer.from(payload)), after, timeoutMs },
        signal,
      )
    ).offset,
  );
/** Once the calls stand in the line. */
const standing = (pod: Pod, waiters: number): Promise<unknown> => eventually(() => pod.waits.standing === waiters);

test("[iterate-19] without an offset is not answered by what is there, but by the next one", async () => {
  const address = newContext();
  await one.append(address, asked(1));
  const waiting = [wait(one, address), wait(two, address)];
  await Promise.all([standing(one, 1), standing(two, 1)]);
  await one.append(address, other);
  await one.append(address, asked(2));
  expect(await Promise.all(waiting)).toEqual([3, 3]);
});

test("[iterate-20] from offset 0 is answered by the first match in offset order, over any number of events", async () => {
  const address = newContext();
  await one.append(address, ...Array.from({ length: 1_200 }, () => other));
  await one.append(address, ...Array.from({ length: 9_000 }, () => other), asked(1), asked(2));
  expect(await wait(two, address, { after: 0 })).toBe(10_201);
  expect(await wait(two, address, { after: 10_201 })).toBe(10_202);
});

test("[iterate-21] from an offset ahead of the head waits for what comes after it", async () => {
  const address = newContext();
  await one.append(address, asked(1));
  const late = wait(one, address, { after: 3, timeoutMs: 400 });
  await standing(one, 1);
  await one.append(address, asked(2));
  await expect(late).rejects.toMatchObject({ code: "WAIT_TIMEOUT" });
  const inTime = wait(one, address, { after: 3 });
  await standing(one, 1);
  await one.append(address, asked(3), asked(4));
  expect(await inTime).toBe(4);
});

test("[iterate-22] two waiters for one event are both answered, in the order in which they came", async () => {
  const address = newContext();
  await one.append(address, other);
  const answered: number[] = [];
  const waiting: Promise<unknown>[] = [];
  for (let at = 0; at < 5; at += 1) {
    waiting.push(wait(two, address, at % 2 === 0 ? {} : { after: 1 }).then((offset) => answered.push(at * 100 + offset)));
    await standing(two, at + 1);
  }
  await one.append(address, asked(1));
  await Promise.all(waiting);
  expect(answered).toEqual([2, 102, 202, 302, 402]);
});

test("[iterate-23] is answered by the earlier of two matches, also when the later one is a reaction to it", async () => {
  const address = newContext();
  await one.append(address, other);
  const waiting = wait(one, address);
  await standing(one, 1);
  const { batch } = await one.commit(address, [asked(1)]);
  await one.append(address, asked(2));
  one.news.observe(batch);
  expect(await waiting).toBe(2);
});

test("loses no match however appends fall around its start", async () => {
  const address = newContext();
  await one.append(address, other);
  for (let n = 0; n < 40; n += 1) {
    const head = (await one.heads.confirm(address))!.lastOffset;
    const [appended, ...waited] = await Promise.all([
      one.append(address, asked(n)),
      wait(one, address, { after: head }),
      wait(two, address, { after: head }),
    ]);
    expect(waited).toEqual([appended, appended]);
  }
});

test("is answered by a payload whose top-level fields equal the wanted ones", async () => {
  const address = newContext();
  await one.append(address, { type: "test/asked", payload: null }, { type: "test/asked", payload: "[1]" }, asked(1), asked(2), {
    type: "test/asked",
    payload: '{"id":9007199254740993,"__proto__":1,"f":-0}',
  });
  const from = (payload: string): Promise<number> => wait(one, address, { after: 0, payload, timeoutMs: 300 });
  expect(await from('{"n":2}')).toBe(4);
  expect(await from('{"x":{"y":[1]}}')).toBe(3);
  expect(await from("{}")).toBe(3);
  expect(await from('{"id":9007199254740993,"__proto__":1,"f":0}')).toBe(5);
  for (const payload of ['{"n":3}', '{"n":"2"}', '{"x":{"y":[1,2]}}', '{"x":{}}', '{"id":9007199254740992}', '{"toString":null}'])
    await expect(from(payload), payload).rejects.toMatchObject({ code: "WAIT_TIMEOUT" });
  expect(() => new PayloadMatch(Buffer.from("[1]"))).toThrow(/must be a JSON object/);
  expect(() => new PayloadMatch(Buffer.from("{"))).toThrow(/is not JSON/);
});

test("ends with the reason of its caller, at its time limit, and when too many wait", async () => {
  const address = newContext();
  await one.append(address, other);
  const leaving = new AbortController();
  const left = wait(one, address, { signal: leaving.signal });
  await standing(one, 1);
  leaving.abort(new Error("the caller went away"));
  await expect(left).rejects.toThrow("the caller went away");
  await expect(wait(one, address, { signal: leaving.signal })).rejects.toThrow("the caller went away");
  await expect(wait(one, address, { timeoutMs: 20 })).rejects.toMatchObject({ code: "WAIT_TIMEOUT" });
  const all = Array.from({ length: 100 }, () =>
    wait(one, address, { signal: leaving.signal, timeoutMs: 1_000 }).catch(() => undefined),
  );
  const many = Array.from({ length: 101 }, () =>
    wait(two, address, { timeoutMs: 500 }).catch((error: unknown) => (isCodedError(error) ? error.code : error)),
  );
  await Promise.all(all);
  expect((await Promise.all(many)).filter((code) => code === "OVERLOADED")).toHaveLength(1);
});
