import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Charts, findHelm, showsNotesWithoutCluster, type Values } from "./helm.js";
import { objectOf, ofKind, variableNames, type KubernetesObject } from "./kubernetes-objects.js";
import { serviceNames, services } from "./services.js";

const helm = findHelm();
const showsNotes = helm !== undefined && showsNotesWithoutCluster(helm);

/** Values that each lack, misspell or overdo something, and what the refusal says of it: helm 3 and 4 word the schema's own differently. */
const refused: readonly (readonly [string, Values, string | RegExp])[] = [
  ["an unknown key", { contxt: {} }, /contxt'? (is )?not allowed/],
  ["an unknown key of a service", { context: { replica: 2 } }, /replica'? (is )?not allowed/],
  ["a variable the service does not declare", { context: { config: { POOL: 1 } } }, /POOL'? (is )?not allowed/],
  ["a variable that the chart sets", { context: { config: { DRAIN_MS: 1000 } } }, /DRAIN_MS'? (is )?not allowed/],
  ["a point of failure", { context: { config: { FAILPOINTS: "x=kill" } } }, /FAILPOINTS'? (is )?not allowed/],
  ["a variable below its range", { context: { config: { DATABASE_POOL_MAX: 4 } } }, /DATABASE_POOL_MAX.*(want|or equal to) 5/],
  [
    "a variable above its range",
    { runner: { config: { LEASE_TTL_MS: 60_001 } } },
    /LEASE_TTL_MS.*(want|or equal to) (60,000|60000|6e\+04)/,
  ],
  [
    "a variable of another type",
    { telemetry: { config: { TELEMETRY_RETENTION_DAYS: "7" } } },
    /TELEMETRY_RETENTION_DAYS.*(want|Expected:) integer/,
  ],
  ["no pod", { runner: { replicas: 0 } }, /replicas.*(want|or equal to) 1/],
  [
    "no memory limit",
    { runner: { resources: { limits: { memory: null } } } },
    /limits.*(missing property 'memory'|memory is required)/,
  ],
  ["an odd memory limit", { runner: { resources: { limits: { memory: "1e9" } } } }, /limits.memory.*does not match pattern/i],
  ["an odd level", { logLevel: "verbose" }, /logLevel.*must be one of/],
  ["half a digest", { runner: { image: { digest: "sha256:abc" } } }, /digest.*does not match pattern/i],
  ["no address", { publicBaseUrl: "", projectBase: "" }, "publicBaseUrl is not set"],
  ["an address with a path", { publicBaseUrl: "https://example.com/iterate" }, /publicBaseUrl.*does not match pattern/i],
  ["no domain for pages", { projectBase: "" }, "projectBase is not set"],
  ["pages on the platform's host", { projectBase: "Iterate.example.com:8443" }, "are equal or one lies below the other"],
  ["pages below the platform's host", { projectBase: "pages.iterate.example.com." }, "are equal or one lies below the other"],
  ["the platform's host below the pages", { projectBase: "example.com" }, "are equal or one lies below the other"],
  ["all projects on one origin", { projectHosts: "paths" }, "is for one machine only"],
  ["a service without its callee", { context: { enabled: false } }, "context is not enabled but runner calls it; set context.url"],
  ["a callee without its HTTP", { bundler: { enabled: false, url: "http://b:1" } }, "but ingress calls it; set bundler.httpUrl"],
  ["more connections than the server takes", { context: { replicas: 10 } }, "may open 140 connections during a rollout"],
  ["the tag latest", { image: { tag: "latest" } }, 'the image tag of context is "latest"'],
  ["one service's tag latest", { bundler: { image: { tag: "latest" } } }, 'the image tag of bundler is "latest"'],
  ["a credential beside untrusted code", { runnerIsolate: { existingSecret: "s" } }, "holds no credential; leave it empty"],
  ["a credential of build workers", { buildWorker: { existingSecret: "s" } }, "holds no credential; leave it empty"],
  [
    "a way out for untrusted code",
    { runnerIsolate: { extraEgress: [{ ports: [{ port: 443 }] }] } },
    "calls nobody; leave it empty",
  ],
  ["projects beside each other", { runnerIsolate: { config: { ISOLATE_TENANCY: "shared" } } }, "code of all projects in one pod"],
  [
    "isolates larger than their pod",
    { runnerIsolate: { config: { ISOLATE_MEMORY_MIB: 1537 } } },
    "below the 2049 MiB that isolates may take",
  ],
  [
    "builds larger than their pod",
    { buildWorker: { config: { BUILD_MAX_JOBS: 3 } } },
    "below the 2476 MiB that its builds may take together",
  ],
  [
    "a queue larger than its pod",
    { telemetry: { config: { TELEMETRY_QUEUE_BYTES: 134_742_016 } } },
    "below the 513 MiB that it may hold",
  ],
  ["a password in the broker's address", { nats: { url: "nats://user:secret@nats:4222" } }, "nats.url carries credentials"],
];

describe.skipIf(helm === undefined)("values", () => {
  let charts: Charts;

  beforeAll(() => {
    charts = new Charts(helm!);
  });
  afterAll(() => charts?.remove());

  test.each(refused)("with %s are refused by a sentence", async (_what, values, sentence) => {
    expect(await charts.refusal(values)).toMatch(sentence);
  });

  test("are refused for all their faults at once", async () => {
    const refusal = await charts.refusal({
      projectHosts: "paths",
      image: { tag: "latest" },
      runnerIsolate: { existingSecret: "s" },
    });
    expect(refusal.match(/^- /gm)).toHaveLength(serviceNames.length + 2);
  });

  test("at their limits are taken", async () => {
    await charts.template({
      context: { replicas: 2, config: { DATABASE_POOL_MAX: 16 } },
      postgres: { maxConnections: 120 },
      runnerIsolate: { config: { ISOLATE_MEMORY_MIB: 1536 } },
      telemetry: { config: { TELEMETRY_QUEUE_BYTES: 134_217_728 } },
    });
    expect(await charts.refusal({ context: { config: { DATABASE_POOL_MAX: 17 } } })).toContain("may open 103 connections");
  });

  describe.each(serviceNames)("without %s", (name) => {
    const { block } = services[name];
    const elsewhere = { [block]: { enabled: false, url: "http://elsewhere:1234", httpUrl: "https://elsewhere" } };

    test("render everything but it, and tell its callers where it is", async () => {
      const objects = await charts.template(elsewhere);
      const rest = serviceNames.filter((other) => other !== name);
      expect(
        ofKind(objects, "Deployment")
          .map(({ metadata }) => metadata?.name)
          .sort(),
      ).toEqual(rest.map((other) => `it-iterate-${other}`).sort());
      expect(JSON.stringify(objects)).not.toContain(`"it-iterate-${name}"`);
      expect(JSON.stringify(objects)).not.toContain(`//it-iterate-${name}:`);
      const callers = ofKind(objects, "ConfigMap").filter(({ data }) => Object.values(data).includes("http://elsewhere:1234"));
      for (const caller of callers) expect(openPorts(objects, caller.metadata.name)).toContain(1234);
    });
  });

  test("with one service alone render it alone", async () => {
    const off = Object.fromEntries(
      serviceNames.map((name) => [services[name].block, { enabled: false, url: "http://other:1", httpUrl: "http://other:2" }]),
    );
    for (const name of ["runner", "runner-isolate"] as const) {
      const objects = await charts.template({ ...off, [services[name].block]: { enabled: true } });
      expect(ofKind(objects, "Deployment").map(({ metadata }) => metadata?.name)).toEqual([`it-iterate-${name}`]);
    }
  });

  test("without telemetry send spans nowhere, or where they are told", async () => {
    const silent = await charts.template({ telemetry: { enabled: false } });
    expect(variableNames(silent, "context")).not.toContain("OTEL_EXPORTER_OTLP_ENDPOINT");
    const told = await charts.template({ telemetry: { enabled: false }, tracing: { endpoint: "https://collector.example.com" } });
    expect(objectOf(told, "ConfigMap", "context").data["OTEL_EXPORTER_OTLP_ENDPOINT"]).toBe("https://collector.example.com");
    expect(openPorts(told, "it-iterate-context")).toContain(443);
  });

  const off = { networkPolicy: { enabled: false } };
  test("without network policies render none", async () => {
    expect(ofKind(await charts.template(off), "NetworkPolicy")).toEqual([]);
  });

  test.skipIf(!showsNotes)("without network policies tell the installer what that means", async () => {
    expect(await charts.notes(off)).toContain("No NetworkPolicy is deployed");
    expect(await charts.notes()).not.toContain("No NetworkPolicy is deployed");
  });

  test.skipIf(!showsNotes)("end with the next three commands", async () => {
    const commands = (await charts.notes()).split("\n").filter((line) => line.startsWith("   "));
    expect(commands).toEqual([
      "   kubectl -n platform rollout status deployment -l app.kubernetes.io/instance=it",
      "   kubectl -n platform port-forward service/it-iterate-ingress-public 7400",
      "   ITERATE_ADMIN_TOKEN=<the admin token> iterate projects create first --base-url http://localhost:7400",
    ]);
  });
});

/** Ports that the pods of a workload may call. */
function openPorts(objects: readonly KubernetesObject[], workload: string): unknown[] {
  const policy = ofKind(objects, "NetworkPolicy").find(({ metadata }) => metadata?.name === workload);
  return (policy?.spec?.egress ?? []).flatMap(({ ports = [] }) => ports.map(({ port }) => port));
}
