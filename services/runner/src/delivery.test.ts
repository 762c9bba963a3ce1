import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import { createPool } from "@iterate-platform/service/postgres";
import { eventually } from "@iterate-platform/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { endBackOff } from "./delivery/delivery.sql.js";
import { query, TestPlatform } from "./platform.fixture.js";
import { Counter, Scripted, startRunner, type ScriptedArgs, type TestRunner, type TestRunnerOptions } from "./runner.fixture.js";

let platform: TestPlatform;
beforeAll(async () => {
  platform = await TestPlatform.start();
});
afterAll(() => platform.stop());

const running: TestRunner[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((runner) => runner.stop()));
});

async function runner(processors: TestRunnerOptions["processors"], options: TestRunnerOptions = {}): Promise<TestRunner> {
  const started = await startRunner(platform, { ...options, processors: processors ?? {} });
  running.push(started);
  return started;
}

const scripted = (script: (args: ScriptedArgs) => unknown) => ({ scripted: () => new Scripted(script) });
const snapshot = (of: TestRunner, owner: string, path: string, name: string) => of.snapshots.snapshot({ owner, path }, name);
const settled = (of: TestRunner, owner: string, path: string, name: string, offset: number) =>
  of.snapshots.waitUntilProcessed({ owner, path }, name, offset, 20_000, new AbortController().signal);
const slow = { timeoutMs: 25_000, intervalMs: 50 };
const haltedType = itx.subscriptionDeliveryHalted.type;
const resumedType = itx.subscriptionDeliveryResumed.type;

describe("delivery to a native processor", () => {
  it("folds every event once and emits once for each, in order", async () => {
    const project = platform.project("/a");
    const of = await runner({ counter: () => new Counter() });
    await project.subscribe("/a", "counter", { afterOffset: 0 });
    for (let n = 0; n < 10; n += 1) await project.append("/a", { type: "tick", payload: { n } }, { type: "noise" });
    await eventually(async () => (await project.events("/a", "ticked")).length === 10, slow);
    const ticks = (await project.events("/a", "tick")).map(({ offset }) => offset);
    expect(await snapshot(of, project.owner, "/a", "counter")).toMatchObject({ state: { count: 10, offsets: ticks } });
    const emitted = await project.events("/a", "ticked");
    expect(emitted.map(({ payload }) => (payload as { of: number }).of)).toEqual(ticks);
    expect(emitted[0]).toMatchObject({
      source: {
        origin: "/a",
        cause: { depth: 1 },
        processor: { slug: "counter", version: "1", whileProcessing: { offset: ticks[0], type: "tick" } },
      },
    });
  });

  it("[iterate-47] starts after the offset it names, else after its own row", async () => {
    const project = platform.project("/a");
    await project.append("/a", { type: "tick" }, { type: "tick" }, { type: "tick" });
    const seen: Record<string, number[]> = { all: [], later: [] };
    const note = (name: string) => () =>
      new Scripted(({ event }) => void (event?.type === "tick" && seen[name]!.push(event.offset)));
    await runner({ all: note("all"), later: note("later") });
    await project.subscribe("/a", "all", { afterOffset: 0 });
    await project.subscribe("/a", "later");
    const [late] = await project.append("/a", { type: "tick" });
    await eventually(() => seen["all"]!.length === 4 && seen["later"]!.length === 1, slow);
    expect(seen).toEqual({ all: [2, 3, 4, late!.offset], later: [late!.offset] });
  });

  it("tries at once what backs off when its code is another, and starts to count anew", async () => {
    const project = platform.project("/a");
    let isBroken = true;
    const of = await runner(
      scripted(({ event }) => {
        if (event?.type === "tick" && isBroken) throw codedError("CODE_FAILED", "the handler is broken");
      }),
      { env: { DELIVERY_RETRY_BASE_MS: "60000" } },
    );
    await project.subscribe("/a", "scripted", { consumes: ["tick"] });
    const [tick] = await project.append("/a", { type: "tick" });
    const failures = () => of.lines.filter(({ message }) => message === "delivery failed");
    await eventually(() => failures().length === 1, slow);
    expect(failures()[0]).toMatchObject({ verdict: "retry", attempt: 1 });
    expect(failures()[0]!["nextTryInMs"]).toBeGreaterThanOrEqual(30_000);

    const db = createPool({ url: platform.runnerDatabase.url, applicationName: "another-pod", max: 1 });
    const endOfBackOff = () => db.query(endBackOff(project.owner, [{ path: "/a", name: "scripted" }]));
    await endOfBackOff();
    await eventually(() => failures().length === 2, slow);
    expect(failures()[1]).toMatchObject({ attempt: 1 });
    isBroken = false;
    await endOfBackOff();
    await settled(of, project.owner, "/a", "scripted", tick!.offset);
    await db.end();
  });

  it("[iterate-49] halts after its attempts with one fact, and a resume delivers from the cursor", async () => {
    const project = platform.project("/a");
    let isBroken = true;
    let tries = 0;
    const of = await runner(
      scripted(({ event }) => {
        if (event?.type !== "tick") return;
        tries += 1;
        if (isBroken) throw codedError("CODE_FAILED", "the handler is broken", { stack: "at handler (triage.ts:7)" });
      }),
      { env: { DELIVERY_MAX_ATTEMPTS: "4", DELIVERY_RETRY_BASE_MS: "2" } },
    );
    await project.subscribe("/a", "scripted", { consumes: ["tick"] });
    await project.subscribe("/a", "scripted-too", { processor: "scripted", consumes: ["other"] });
    const [tick] = await project.append("/a", { type: "tick" });
    await eventually(async () => (await project.events("/a", haltedType)).length === 1, slow);
    const [fact] = await project.events("/a", haltedType);
    expect(fact).toMatchObject({
      payload: {
        name: "scripted",
        offset: tick!.offset,
        attempts: 4,
        error: { code: "CODE_FAILED", message: "the handler is broken", stack: "at handler (triage.ts:7)" },
      },
      source: { platform: true, origin: "/a" },
    });
    expect((fact!.payload as { afterOffset: number }).afterOffset).toBeLessThan(tick!.offset);
    expect(of.lines.find(({ verdict }) => verdict === "halt")).toMatchObject({ attempt: 4, resumedBy: resumedType });
    expect(tries).toBe(4);
    // The other line went on meanwhile.
    expect(await settled(of, project.owner, "/a", "scripted-too", fact!.offset)).toBeGreaterThanOrEqual(fact!.offset);

    isBroken = false;
    await project.append("/a", { type: resumedType, payload: { name: "scripted" } });
    await settled(of, project.owner, "/a", "scripted", tick!.offset);
    expect(tries).toBe(5);
    expect(await project.events("/a", haltedType)).toHaveLength(1);
  });

  it("a resume with a place skips the poison", async () => {
    const project = platform.project("/a");
    const done: number[] = [];
    await runner(
      scripted(({ event }) => {
        if (event?.type !== "tick") return;
        if ((event.payload as { poison?: boolean }).poison === true) throw codedError("PERMANENT_FAILURE", "never");
        done.push(event.offset);
      }),
    );
    await project.subscribe("/a", "scripted", { consumes: ["tick"] });
    const [poison] = await project.append("/a", { type: "tick", payload: { poison: true } });
    const [good] = await project.append("/a", { type: "tick", payload: {} });
    await eventually(async () => (await project.events("/a", haltedType)).length === 1, slow);
    await project.append("/a", { type: resumedType, payload: { name: "scripted", afterOffset: poison!.offset } });
    await eventually(() => done.includes(good!.offset), slow);
    expect(done).toEqual([good!.offset]);
  });

  it("[iterate-50] halts at once when the code says that no retry helps", async () => {
    const project = platform.project("/a");
    let tries = 0;
    await runner(
      scripted(({ event }) => {
        if (event?.type !== "tick") return;
        tries += 1;
        throw codedError("PERMANENT_FAILURE", "never");
      }),
    );
    await project.subscribe("/a", "scripted", { consumes: ["tick"] });
    await project.append("/a", { type: "tick" });
    await eventually(async () => (await project.events("/a", haltedType)).length === 1, slow);
    expect((await project.events("/a", haltedType))[0]).toMatchObject({
      payload: { attempts: 1, error: { code: "PERMANENT_FAILURE" } },
    });
    expect(tries).toBe(1);
  });

  it("finds the one event of a batch that fails, charges it alone and delivers all before it", async () => {
    const project = platform.project("/a");
    const batch = await project.append(
      "/a",
      ...Array.from({ length: 9 }, (_, n) => ({ type: "tick", payload: { poison: n === 6 } })),
    );
    const poison = batch[6]!.offset;
    await runner(
      {
        scripted: () =>
          new Scripted(({ event }) => {
            if ((event?.payload as { poison?: boolean } | undefined)?.poison === true) throw new Error("poison");
          }),
      },
      { env: { DELIVERY_MAX_ATTEMPTS: "3", DELIVERY_RETRY_BASE_MS: "2" } },
    );
    await project.subscribe("/a", "scripted", { consumes: ["tick"], afterOffset: 0 });
    await eventually(async () => (await project.events("/a", haltedType)).length === 1, slow);
    expect((await project.events("/a", haltedType))[0]).toMatchObject({
      payload: { offset: poison, afterOffset: poison - 1, attempts: 3 },
    });
  });

  it("[iterate-51] [iterate-52] a row replaced while its batch is in flight gets nothing of it, and the next batch goes to the new target", async () => {
    const project = platform.project("/a");
    const held = Promise.withResolvers<void>();
    const began = Promise.withResolvers<void>();
    const seen: string[] = [];
    await runner({
      former: () =>
        new Scripted(async ({ event }) => {
          if (event?.type !== "tick") return;
          began.resolve();
          await held.promise;
          throw codedError("PERMANENT_FAILURE", "late");
        }),
      next: () => new Scripted(({ event }) => void (event?.type === "tick" && seen.push("next"))),
    });
    await project.subscribe("/a", "row", { processor: "former", consumes: ["tick"] });
    const [tick] = await project.append("/a", { type: "tick" });
    await began.promise;
    await project.subscribe("/a", "row", { processor: "next", consumes: ["tick"], afterOffset: tick!.offset - 1 });
    await eventually(async () => (await platformRow(project.owner, "row"))?.host === "native:next", slow);
    held.resolve();
    await eventually(() => seen.length === 1, slow);
    expect(await project.events("/a", haltedType)).toEqual([]);
  });

  it("[iterate-53] a target nothing answers to spends no attempt, and is delivered to once something does", async () => {
    const project = platform.project("/a");
    const first = await runner({});
    await project.subscribe("/a", "scripted", { consumes: ["tick"] });
    const [tick] = await project.append("/a", { type: "tick" });
    await eventually(async () => (await platformRow(project.owner, "scripted"))?.status === "dangling", slow);
    expect(await platformRow(project.owner, "scripted")).toMatchObject({ attempt: 0, error_code: "NO_FACET" });
    await first.stop();
    running.splice(0);
    const seen: number[] = [];
    await runner(scripted(({ event }) => void (event && seen.push(event.offset))));
    await eventually(() => seen.includes(tick!.offset), slow);
    expect(
      await eventually(async () => ((await platformRow(project.owner, "scripted"))?.status === "active" ? true : null), slow),
    ).toBe(true);
  });

  it("[iterate-63] the next event waits for the blockers of the one before, nested ones too", async () => {
    const project = platform.project("/a");
    const order: string[] = [];
    const of = await runner(
      scripted(({ event, blockProcessorWhile }) => {
        if (event?.type !== "tick") return;
        order.push(`begin ${event.offset}`);
        blockProcessorWhile(async () => {
          await new Promise(setImmediate);
          blockProcessorWhile(() => void order.push(`end ${event.offset}`));
        });
      }),
    );
    await project.subscribe("/a", "scripted", { consumes: ["tick"] });
    const ticks = await project.append("/a", { type: "tick" }, { type: "tick" });
    await settled(of, project.owner, "/a", "scripted", ticks[1]!.offset);
    expect(order).toEqual(ticks.flatMap(({ offset }) => [`begin ${offset}`, `end ${offset}`]));
  });

  it("[iterate-64] a failure of background work is reported, the batch stands and the next one comes", async () => {
    const project = platform.project("/a");
    const of = await runner(
      scripted(({ event, runInBackground }) => {
        if (event?.type === "tick") runInBackground(() => Promise.reject(codedError("CODE_FAILED", "in the background")));
      }),
    );
    await project.subscribe("/a", "scripted", { consumes: ["tick"] });
    await project.append("/a", { type: "tick" });
    const [second] = await project.append("/a", { type: "tick" });
    await settled(of, project.owner, "/a", "scripted", second!.offset);
    await eventually(() => of.lines.filter(({ message }) => message === "background work failed").length === 2, slow);
    expect(of.lines.find(({ message }) => message === "background work failed")).toMatchObject({
      owner: project.owner,
      context: "/a",
      subscription: "scripted",
      code: "CODE_FAILED",
    });
    expect(await project.events("/a", haltedType)).toEqual([]);
  });

  it("[iterate-65] a throwing reduce keeps the state and the cursor covers the event", async () => {
    const project = platform.project("/a");
    const of = await runner({
      scripted: () =>
        new Scripted(
          () => undefined,
          (offset) => {
            if (offset === poisoned) throw new Error("reduce");
          },
        ),
    });
    await project.subscribe("/a", "scripted", { consumes: ["tick"] });
    const good = await project.append("/a", { type: "tick" });
    const poisoned = good[0]!.offset + 1;
    await project.append("/a", { type: "tick" });
    await settled(of, project.owner, "/a", "scripted", poisoned);
    const { offset, state } = await snapshot(of, project.owner, "/a", "scripted");
    expect(offset).toBe(poisoned);
    // Its own place in the log is folded too, without effects: a state covers the whole log.
    expect(state).toEqual({ seen: [1, 2, good[0]!.offset] });
  });

  it("[iterate-66] a throwing blocker writes nothing, the batch is repeated whole, then written once", async () => {
    const project = platform.project("/a");
    const batch = await project.append("/a", { type: "tick" }, { type: "tick" }, { type: "tick" });
    let tries = 0;
    const reduced: number[] = [];
    const of = await runner({
      scripted: () =>
        new Scripted(
          ({ event, emit, blockProcessorWhile }) => {
            if (event?.type !== "tick") return;
            emit({ type: "a", payload: { of: event.offset } });
            blockProcessorWhile(() => {
              if (event.offset === batch[2]!.offset && (tries += 1) === 1) throw new Error("once");
            });
          },
          (offset) => reduced.push(offset),
        ),
    });
    await project.subscribe("/a", "scripted", { consumes: ["tick"], afterOffset: 0 });
    await settled(of, project.owner, "/a", "scripted", batch[2]!.offset);
    await eventually(async () => (await project.events("/a", "a")).length >= 3, slow);
    const offsets = batch.map(({ offset }) => offset);
    expect(reduced).toEqual([...offsets, ...offsets]);
    expect((await project.events("/a", "a")).map(({ payload }) => (payload as { of: number }).of)).toEqual(offsets);
    expect(await snapshot(of, project.owner, "/a", "scripted")).toMatchObject({ state: { seen: offsets } });
  });

  it("[iterate-84] a handler that appends what it handles ends after nine events with one fact, and reads go on", async () => {
    const project = platform.project("/a");
    const of = await runner(
      scripted(async ({ event, append }) => {
        if (event?.type === "tick") await append({ type: "tick", payload: { after: event.offset } });
      }),
    );
    await project.subscribe("/a", "scripted", { consumes: ["tick"] });
    await project.append("/a", { type: "tick" });
    await eventually(async () => (await project.events("/a", itx.loopLimit.type)).length === 1, {
      timeoutMs: 60_000,
      intervalMs: 100,
    });
    const ticks = await project.events("/a", "tick");
    expect(ticks.map(({ source }) => source.cause.depth)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    await settled(of, project.owner, "/a", "scripted", ticks[8]!.offset);
    expect(await project.events("/a", haltedType)).toEqual([]);
    const [later] = await project.append("/a", { type: "other" });
    await settled(of, project.owner, "/a", "scripted", later!.offset);
    expect(await project.events("/a", itx.loopLimit.type)).toHaveLength(1);
  }, 90_000);

  it("[iterate-84] the same with emitted events", async () => {
    const project = platform.project("/a");
    await runner(
      scripted(({ event, emit }) => void (event?.type === "tick" && emit({ type: "tick", payload: { after: event.offset } }))),
    );
    await project.subscribe("/a", "scripted", { consumes: ["tick"] });
    await project.append("/a", { type: "tick" });
    await eventually(async () => (await project.events("/a", itx.loopLimit.type)).length === 1, {
      timeoutMs: 60_000,
      intervalMs: 100,
    });
    expect((await project.events("/a", "tick")).map(({ source }) => source.cause.depth)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    expect(await project.events("/a", itx.subscriptionDeliveryFailed.type)).toEqual([]);
  }, 90_000);

  it("[iterate-85] what a failed delivery appended is there once after its retry, and a write repeated in one delivery once", async () => {
    const project = platform.project("/a");
    let tries = 0;
    const of = await runner(
      scripted(async ({ event, append }) => {
        if (event?.type !== "tick") return;
        await append({ type: "a", payload: { x: 1, y: 2 } });
        await append({ type: "b" });
        const [again] = await append({ type: "a", payload: { y: 2, x: 1 } });
        await append({ type: "c", payload: { same: again!.offset } });
        if ((tries += 1) === 1) throw new Error("once");
      }),
    );
    await project.subscribe("/a", "scripted", { consumes: ["tick"] });
    const [tick] = await project.append("/a", { type: "tick" });
    await settled(of, project.owner, "/a", "scripted", tick!.offset);
    expect(tries).toBe(2);
    const [a] = await project.events("/a", "a");
    expect(await project.events("/a", "a")).toHaveLength(1);
    expect(await project.events("/a", "b")).toHaveLength(1);
    expect((await project.events("/a", "c")).map(({ payload }) => payload)).toEqual([{ same: a!.offset }]);
  });

  it("keeps an emitted event that its log refuses as a dead letter, says so, and goes on", async () => {
    const project = platform.project("/a");
    await project.append("/a", { type: "a", payload: { first: true }, idempotencyKey: "taken" });
    const of = await runner(
      scripted(({ event, emit }) => {
        if (event?.type !== "tick") return;
        emit({ type: "b" }, { type: "a", payload: { second: true }, idempotencyKey: "taken" }, { type: "c" });
      }),
    );
    await project.subscribe("/a", "scripted", { consumes: ["tick"] });
    await project.append("/a", { type: "tick" });
    await eventually(async () => (await project.events("/a", "c")).length === 1, slow);
    expect(await project.events("/a", "b")).toHaveLength(1);
    const failed = await eventually(async () => (await project.events("/a", itx.subscriptionDeliveryFailed.type))[0], slow);
    expect(failed).toMatchObject({ payload: { name: "scripted", type: "a", error: { code: "IDEMPOTENCY_CONFLICT" } } });
    const letters = await query(platform.runnerDatabase.url, "select id, error_code from dead_letter where owner = $1", [
      project.owner,
    ]);
    expect(letters).toEqual([{ id: (failed.payload as { emit: string }).emit, error_code: "IDEMPOTENCY_CONFLICT" }]);
    const [next] = await project.append("/a", { type: "tick" });
    await settled(of, project.owner, "/a", "scripted", next!.offset);
  });

  it("delivers by the sweep alone while the broker is away", async () => {
    const project = platform.project("/a");
    await runner({ counter: () => new Counter() }, { natsUrl: "nats://127.0.0.1:1", env: { FEED_SWEEP_MS: "300" } });
    await project.subscribe("/a", "counter", { afterOffset: 0 });
    await project.append("/a", { type: "tick" });
    await eventually(async () => (await project.events("/a", "ticked")).length === 1, slow);
    await project.append("/a", { type: "tick" });
    await eventually(async () => (await project.events("/a", "ticked")).length === 2, slow);
  });
});

interface Row {
  readonly status: string;
  readonly host: string;
  readonly attempt: number;
  readonly error_code: string | null;
}

async function platformRow(owner: string, name: string): Promise<Row | undefined> {
  return (
    await query<Row & Record<string, unknown>>(
      platform.runnerDatabase.url,
      "select status, host, attempt, error_code from delivery where owner = $1 and name = $2",
      [owner, name],
    )
  )[0];
}
