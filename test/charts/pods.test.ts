import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Charts, findHelm } from "./helm.js";
import { containersOf, objectOf, ofKind, type KubernetesObject } from "./kubernetes-objects.js";
import { serviceNames, services, untrusted, type ServiceName } from "./services.js";

const helm = findHelm();

describe.skipIf(helm === undefined)("every pod", () => {
  let charts: Charts;
  let objects: KubernetesObject[];

  beforeAll(async () => {
    charts = new Charts(helm!);
    objects = await charts.template();
  });
  afterAll(() => charts?.remove());

  describe.each(serviceNames)("of %s", (name) => {
    const podOf = () => objectOf(objects, "Deployment", name).spec!.template.spec!;

    test("meets the restricted Pod Security standard", () => {
      const pod = podOf();
      expect(pod.securityContext).toMatchObject({
        runAsNonRoot: true,
        runAsUser: 65_532,
        seccompProfile: { type: "RuntimeDefault" },
      });
      for (const container of containersOf(objectOf(objects, "Deployment", name)))
        expect(container.securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
      expect([pod.hostNetwork, pod.hostPID, pod.hostIPC]).toEqual([undefined, undefined, undefined]);
      for (const { name: _, ...source } of pod.volumes ?? [])
        expect(["emptyDir", "projected"]).toContain(Object.keys(source).join());
    });

    test("holds no token of the cluster and is told of no Service by its environment", () => {
      expect(podOf()).toMatchObject({
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        serviceAccountName: `it-iterate-${name}`,
      });
      expect(objectOf(objects, "ServiceAccount", name).automountServiceAccountToken).toBe(false);
    });

    test("reaps what children of killed children leave behind", () => {
      expect(podOf().shareProcessNamespace).toBe(true);
    });

    test("is restarted by what it alone decides, and reached when it can do its work", () => {
      const [container] = podOf().containers;
      expect(container!.startupProbe!.httpGet).toEqual({ path: "/livez", port: "admin" });
      expect(container!.livenessProbe!.httpGet).toEqual({ path: "/livez", port: "admin" });
      expect(container!.readinessProbe!.httpGet).toEqual({ path: "/readyz", port: "admin" });
    });

    test("has a longer grace than its drain and the wait before it", () => {
      const pod = podOf();
      const drainSeconds = Number(objectOf(objects, "ConfigMap", name).data["DRAIN_MS"]) / 1_000;
      const waitSeconds = Number(pod.containers[0]!.lifecycle!.preStop!.exec!.command![1]);
      expect(pod.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(drainSeconds + waitSeconds + 5);
    });

    test("asks for CPU and memory and has a bound of memory", () => {
      for (const { resources } of containersOf(objectOf(objects, "Deployment", name))) {
        expect(resources?.requests).toMatchObject({ cpu: expect.any(String), memory: expect.any(String) });
        expect(resources?.limits?.["memory"]).toMatch(/^\d+(Mi|Gi)$/);
      }
    });

    test("runs its service's image at the chart's version", () => {
      for (const { image } of containersOf(objectOf(objects, "Deployment", name)))
        expect(image).toBe(`iterate.example.com/iterate/${services[name].image}:0.1.0`);
    });

    test("migrates first when it has a database", () => {
      const migrations = (podOf().initContainers ?? []).map(({ args }) => args);
      expect(migrations).toEqual(untrusted.includes(name) ? [] : [["migrate"]]);
    });

    test("calls and is called by whom the design says, and nobody else", () => {
      const calls = ofKind(objects, "NetworkPolicy")
        .filter(({ metadata }) => metadata?.name === `it-iterate-${name}`)
        .flatMap(({ spec }) => spec?.egress ?? [])
        .flatMap(({ to }) => (to ?? []).map((peer) => peer.podSelector?.matchLabels?.["app.kubernetes.io/component"]));
      for (const callee of calls) {
        expect(services[name].calls).toContain(callee);
        expect(fromOf(objects, callee!)).toContain(name);
      }
      const callers = fromOf(objects, name);
      for (const caller of callers) expect(services[caller as ServiceName].calls).toContain(name);
    });
  });

  test("beside untrusted code reaches nothing, not even names, and is reached by its one caller", () => {
    for (const [name, caller] of [
      ["runner-isolate", "runner"],
      ["build-worker", "bundler"],
    ] as const) {
      expect(objectOf(objects, "NetworkPolicy", name).spec).toMatchObject({ egress: [], policyTypes: ["Ingress", "Egress"] });
      expect(fromOf(objects, name)).toEqual([caller]);
    }
  });

  test("of the release is denied what no policy of its own allows", () => {
    const { spec } = objectOf(objects, "NetworkPolicy", "default-deny");
    expect(spec).toEqual({
      podSelector: { matchLabels: { "app.kubernetes.io/name": "iterate", "app.kubernetes.io/instance": "it" } },
      policyTypes: ["Ingress", "Egress"],
    });
  });

  test("is replaced when a variable changes, and only then", async () => {
    const changed = await charts.template({ context: { config: { MAX_STREAMS: 100 } } });
    const checksum = (rendered: KubernetesObject[], name: string) =>
      objectOf(rendered, "Deployment", name).spec!.template.metadata!.annotations!["checksum/config"];
    expect(checksum(changed, "context")).not.toBe(checksum(objects, "context"));
    expect(checksum(changed, "runner")).toBe(checksum(objects, "runner"));
  });

  test("runs a digest when one is named", async () => {
    const digest = `sha256:${"a".repeat(64)}`;
    const pinned = await charts.template({ context: { image: { digest, tag: "1.2.3" } }, bundler: { image: { tag: "1.2.3" } } });
    expect(containersOf(objectOf(pinned, "Deployment", "context"))[0]!.image).toBe(`iterate.example.com/iterate/context@${digest}`);
    expect(containersOf(objectOf(pinned, "Deployment", "bundler"))[0]!.image).toBe("iterate.example.com/iterate/bundler:1.2.3");
  });
});

/** Services whose pods a policy lets in; the client's type calls `from` otherwise than the object does. */
function fromOf(objects: readonly KubernetesObject[], name: string): string[] {
  const rules = (objectOf(objects, "NetworkPolicy", name).spec?.ingress ?? []) as {
    from?: { podSelector?: { matchLabels?: Record<string, string> } }[];
  }[];
  return rules.flatMap(({ from = [] }) =>
    from.flatMap(({ podSelector }) => podSelector?.matchLabels?.["app.kubernetes.io/component"] ?? []),
  );
}
