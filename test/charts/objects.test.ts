import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Charts, findHelm } from "./helm.js";
import { problemsOf } from "./kubernetes-schema.js";
import { containersOf, objectOf, ofKind, type KubernetesObject } from "./kubernetes-objects.js";
import { serviceNames } from "./services.js";

const helm = findHelm();

describe.skipIf(helm === undefined)("the objects of a release", () => {
  let charts: Charts;
  let objects: KubernetesObject[];

  beforeAll(async () => {
    charts = new Charts(helm!);
    objects = await charts.template();
  });
  afterAll(() => charts?.remove());

  test("come from a chart without a fault that lint knows", async () => {
    expect(await charts.lint()).toContain("0 chart(s) failed");
  });

  test("are of the kinds and fields that Kubernetes knows, also with every value set", async () => {
    const everything = await charts.template({
      fullnameOverride: "it-iterate",
      image: { pullSecrets: [{ name: "registry" }] },
      networkPolicy: {
        publicFrom: [{ ipBlock: { cidr: "10.0.0.0/8" } }],
        metricsFrom: [{ namespaceSelector: { matchLabels: { team: "metrics" } } }],
        postgres: { to: [{ ipBlock: { cidr: "10.1.0.0/16" } }] },
        nats: { to: [{ podSelector: { matchLabels: { app: "nats" } } }] },
      },
      ingress: {
        service: { type: "LoadBalancer", annotations: { internal: "true" } },
        extraEgress: [{ ports: [{ port: 443, protocol: "TCP" }] }],
      },
      runnerIsolate: {
        runtimeClassName: "gvisor",
        nodeSelector: { pool: "untrusted" },
        tolerations: [{ key: "untrusted", operator: "Exists" }],
        podAnnotations: { owner: "platform" },
        extraIngress: [{ from: [{ podSelector: {} }] }],
      },
    });
    expect([...objects, ...everything].flatMap(problemsOf)).toEqual([]);
    expect(everything.length).toBe(objects.length);
  });

  test("would be found wrong when they were", () => {
    const deployment = structuredClone(objectOf(objects, "Deployment", "context"));
    const [container] = deployment.spec!.template.spec!.containers;
    Object.assign(container!, { livenessProb: {} });
    Object.assign(deployment.spec!, { replicas: "two" });
    expect(problemsOf(deployment as KubernetesObject)).toEqual([
      "Deployment it-iterate-context: .spec.template.spec.containers[0].livenessProb is no field of apps/v1",
      expect.stringContaining("replicas"),
    ]);
  });

  test("are one Deployment, ServiceAccount, ConfigMap and NetworkPolicy of each service, in the release's namespace", () => {
    for (const kind of ["Deployment", "ServiceAccount", "ConfigMap"] as const)
      expect(
        ofKind(objects, kind)
          .map(({ metadata }) => metadata?.name)
          .sort(),
      ).toEqual(serviceNames.map((name) => `it-iterate-${name}`).sort());
    expect(ofKind(objects, "NetworkPolicy")).toHaveLength(serviceNames.length + 1);
    expect(new Set(objects.map(({ metadata }) => metadata.namespace))).toEqual(new Set(["platform"]));
  });

  test("select pods by labels that no version changes", async () => {
    const later = await charts.template({ image: { tag: "9.9.9" }, context: { config: { MAX_STREAMS: 1 } } });
    for (const name of serviceNames)
      expect(objectOf(later, "Deployment", name).spec!.selector).toEqual(objectOf(objects, "Deployment", name).spec!.selector);
  });

  test("keep the ports they are known by", () => {
    const ports = ofKind(objects, "Service").flatMap(({ metadata, spec }) =>
      (spec?.ports ?? []).map(
        ({ name, port, protocol, appProtocol }) => `${metadata?.name} ${name} ${port} ${protocol} ${appProtocol}`,
      ),
    );
    expect(ports.sort()).toMatchInlineSnapshot(`
      [
        "it-iterate-build-worker grpc 7415 TCP kubernetes.io/h2c",
        "it-iterate-bundler grpc 7413 TCP kubernetes.io/h2c",
        "it-iterate-bundler http 7443 TCP http",
        "it-iterate-context grpc 7410 TCP kubernetes.io/h2c",
        "it-iterate-ingress-public public-grpc 7401 TCP kubernetes.io/h2c",
        "it-iterate-ingress-public public-http 7400 TCP http",
        "it-iterate-runner grpc 7411 TCP kubernetes.io/h2c",
        "it-iterate-runner http 7441 TCP http",
        "it-iterate-runner-isolate grpc 7412 TCP kubernetes.io/h2c",
        "it-iterate-runner-isolate http 7442 TCP http",
        "it-iterate-telemetry grpc 7414 TCP kubernetes.io/h2c",
        "it-iterate-telemetry otlp-grpc 4317 TCP kubernetes.io/h2c",
        "it-iterate-telemetry otlp-http 4318 TCP http",
      ]
    `);
  });

  test("let clients of internal listeners spread over pods, by a Service without an address", () => {
    for (const { metadata, spec } of ofKind(objects, "Service"))
      expect(spec?.clusterIP, metadata?.name).toBe(metadata?.name?.endsWith("-public") ? undefined : "None");
  });

  test("leave each listener's port to a container that serves it", () => {
    for (const { metadata, spec } of ofKind(objects, "Service")) {
      const pods = ofKind(objects, "Deployment").find(({ spec: { selector } = {} }) =>
        Object.entries(spec?.selector ?? {}).every(([label, value]) => selector?.matchLabels?.[label] === value),
      );
      const served = containersOf(pods!).flatMap(({ ports = [] }) => ports);
      for (const { targetPort, port } of spec?.ports ?? [])
        expect(served, metadata?.name).toContainEqual({ name: targetPort, containerPort: port, protocol: "TCP" });
    }
  });
});
