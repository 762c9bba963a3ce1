import { afterEach, describe, expect, test } from "vitest";
import { createAdminServer, Metrics, observeProcess, Readiness } from "./admin.js";
import { createLog } from "./log.js";
import type { HttpServer } from "./http-server.js";

describe("readiness", () => {
  test("is a matter of phase and of every loop's progress within its bound", () => {
    let now = 0;
    const readiness = new Readiness(() => now);
    expect(readiness.problems()).toEqual(["the process is starting"]);
    readiness.started();
    expect(readiness.problems()).toEqual([]);
    const loop = readiness.progress("feed", 5_000);
    const other = readiness.progress("sweep", 10_000);
    now = 5_000;
    expect(readiness.problems()).toEqual([]);
    now = 5_001;
    expect(readiness.problems()).toEqual(["feed made no progress for 5001 ms, its bound is 5000 ms"]);
    loop.tick();
    expect(readiness.problems()).toEqual([]);
    now = 10_002;
    expect(readiness.problems()).toHaveLength(2);
    other.end();
    loop.tick();
    expect(readiness.problems()).toEqual([]);
    expect(readiness.ages()).toEqual([{ name: "feed", ageMs: 0 }]);
    expect(() => readiness.progress("feed", 1)).toThrow("already");
    readiness.draining();
    readiness.started();
    expect(readiness.problems()).toEqual(["the process is draining"]);
  });
});

describe("metrics", () => {
  test("are exposed as Prometheus reads them", async () => {
    const metrics = new Metrics();
    metrics.counter("iterate.append.events", { description: "Events appended." }).add(3, { kind: "durable" });
    metrics.gauge("iterate.queue.depth", { description: "Waiting." }).set(7);
    metrics.observedGauge("iterate.oldest.age", { description: "Oldest due work.", unit: "s" }, () => [
      { value: 1.5, labels: { shard: "0" } },
    ]);
    metrics.observedCounter("iterate.drops", { description: "Dropped." }, () => 2);
    metrics.histogram("iterate.append.duration", { description: "Append.", unit: "s", boundaries: [0.1, 1] }).record(0.5);
    expect((await metrics.text()).split("\n")).toEqual(
      expect.arrayContaining([
        "# HELP iterate_append_events_total Events appended.",
        "# TYPE iterate_append_events_total counter",
        'iterate_append_events_total{kind="durable"} 3',
        "iterate_queue_depth 7",
        'iterate_oldest_age_seconds{shard="0"} 1.5',
        "iterate_drops_total 2",
        'iterate_append_duration_seconds_bucket{le="0.1"} 0',
        'iterate_append_duration_seconds_bucket{le="1"} 1',
        'iterate_append_duration_seconds_bucket{le="+Inf"} 1',
        "iterate_append_duration_seconds_count 1",
      ]),
    );
  });

  test("survive an observed gauge that throws", async () => {
    const metrics = new Metrics();
    metrics.observedGauge("iterate.bad", { description: "Bad." }, () => {
      throw new Error("no");
    });
    metrics.counter("iterate.good", { description: "Good." }).add(1);
    expect(await metrics.text()).toContain("iterate_good_total 1");
  });
});

describe("the admin listener", () => {
  let server: HttpServer;
  afterEach(() => server.drain(0));

  test("answers probes, metrics and, for anything else, what there is", async () => {
    const readiness = new Readiness();
    const metrics = new Metrics();
    const stop = observeProcess(metrics, readiness);
    server = createAdminServer({
      name: "context",
      listen: { variable: "ADMIN_LISTEN", host: "127.0.0.1", port: 0 },
      log: createLog("context", { write: () => {} }),
      readiness,
      metrics,
    });
    const url = `http://127.0.0.1:${await server.start()}`;
    expect([(await fetch(`${url}/livez`)).status, (await fetch(`${url}/readyz`)).status]).toEqual([200, 503]);
    readiness.started();
    expect((await fetch(`${url}/readyz?verbose`)).status).toBe(200);
    expect((await fetch(`${url}/readyz`, { method: "HEAD" })).status).toBe(200);
    const text = await (await fetch(`${url}/metrics`)).text();
    for (const name of ["process_event_loop_delay_seconds", "process_cpu_time_seconds_total", "iterate_ready 1"])
      expect(text).toContain(name);
    expect(await (await fetch(`${url}/`)).json()).toMatchObject({
      code: "NOT_FOUND",
      detail: expect.stringContaining("/readyz") as string,
    });
    expect((await fetch(`${url}/livez`, { method: "POST" })).status).toBe(404);
    stop();
  });
});
