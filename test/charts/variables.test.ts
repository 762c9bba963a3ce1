import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Charts, findHelm, repositoryRoot } from "./helm.js";
import { objectOf, variableNames, type KubernetesObject } from "./kubernetes-objects.js";
import { readReference, type Reference } from "./reference.js";
import { serviceNames, services, untrusted } from "./services.js";

const helm = findHelm();
const chart = join(repositoryRoot, "charts/iterate");

describe.skipIf(helm === undefined)("the variables of", () => {
  let charts: Charts;
  let objects: KubernetesObject[];
  let reference: Reference;

  beforeAll(async () => {
    reference = readReference();
    charts = new Charts(helm!);
    objects = await charts.template();
  }, 120_000);
  afterAll(() => charts?.remove());

  test.each(["values.schema.json", "README.md"])("all services are those of %s; `make charts` writes it anew", (file) => {
    expect(readFileSync(join(chart, file), "utf8")).toBe(reference.files[file]);
  });

  describe.each(serviceNames)("%s", (name) => {
    const { block } = services[name];
    const declared = () => reference.variables[block]!;

    test("are each declared by its program, and the required ones are there", () => {
      const rendered = variableNames(objects, name);
      expect(declared().map((variable) => variable.name)).toEqual(expect.arrayContaining(rendered));
      expect(rendered).toEqual(
        expect.arrayContaining(
          declared()
            .filter(({ isRequired }) => isRequired)
            .map((variable) => variable.name),
        ),
      );
      expect(new Set(rendered).size).toBe(rendered.length);
    });

    test("come from a Secret exactly when they are secret, or a file of one", () => {
      const data = objectOf(objects, "ConfigMap", name).data;
      const secret = declared().filter(({ isSecret }) => isSecret);
      for (const { name: variable } of secret) if (variable in data) expect(data[variable]).toMatch(/^\/etc\/iterate\//);
    });

    test("name every address it takes calls at, and every service it calls", () => {
      const data = objectOf(objects, "ConfigMap", name).data;
      const rendered = variableNames(objects, name);
      for (const { name: variable } of declared())
        if (/_(LISTEN|URL)$/.test(variable))
          expect(rendered).toContain(variable === "DATABASE_DIRECT_URL" ? "DATABASE_URL" : variable);
      const urls = Object.entries(data).filter(([variable]) =>
        /^(CONTEXT|RUNNER|BUNDLER|BUILD_WORKER|ISOLATE|TELEMETRY).*_URL$/.test(variable),
      );
      for (const [variable, url] of urls) expect(url, variable).toMatch(/^http:\/\/it-iterate-[a-z-]+:\d+$/);
    });

    test("that it may be given by values are numbers and choices of its own", async () => {
      const schema = JSON.parse(readFileSync(join(chart, "values.schema.json"), "utf8")) as {
        $defs: Record<string, { properties: Record<string, { type: string }> }>;
      };
      const tunables = Object.keys(schema.$defs[`${block}Config`]!.properties);
      expect(tunables.filter((variable) => variableNames(objects, name).includes(variable))).toEqual(
        ["COMMIT_STREAM_REPLICAS", "ISOLATE_MEMORY_MIB", "LOG_LEVEL"].filter((variable) => tunables.includes(variable)),
      );
    });
  });

  test.each(untrusted)("%s lead to nothing usable", (name) => {
    const names = variableNames(objects, name);
    for (const variable of names) expect(variable).not.toMatch(/DATABASE|NATS|SERVICE_KEY|OTEL|TOKEN|SECRET|SHARDS|_URL$/);
    const [container] = objectOf(objects, "Deployment", name).spec!.template.spec!.containers;
    expect(container!.env).toBeUndefined();
    const volumes = objectOf(objects, "Deployment", name).spec!.template.spec!.volumes!;
    const secrets = volumes.flatMap(({ projected }) => projected?.sources ?? []).map(({ secret }) => secret?.name);
    expect(secrets).toEqual(["it-iterate-trusted-keys"]);
  });

  test("context and runner need a direct way to the database beside a pooler", async () => {
    const isOptional = (rendered: KubernetesObject[]) =>
      objectOf(rendered, "Deployment", "runner").spec!.template.spec!.containers[0]!.env!.find(
        ({ name }) => name === "DATABASE_DIRECT_URL",
      )!.valueFrom!.secretKeyRef!.optional;
    expect(isOptional(objects)).toBe(true);
    expect(isOptional(await charts.template({ postgres: { pooler: "transaction" } }))).toBeUndefined();
  });

  test("keep numbers as they were written", async () => {
    const large = await charts.template({ context: { config: { CACHED_CONTEXTS: 10_000_000 } } });
    expect(objectOf(large, "ConfigMap", "context").data["CACHED_CONTEXTS"]).toBe("10000000");
  });

  test("every Secret that is read are told of in the README, with their keys", () => {
    const readme = readFileSync(join(chart, "README.md"), "utf8");
    for (const name of serviceNames.filter((service) => !untrusted.includes(service))) {
      const pod = objectOf(objects, "Deployment", name).spec!.template.spec!;
      const row = readme.split("\n").find((line) => line.startsWith(`| \`<name>-${name}\``))!;
      const files = pod
        .volumes!.flatMap(({ projected }) => projected?.sources ?? [])
        .filter(({ secret }) => secret?.name === `it-iterate-${name}`);
      const keys = [
        ...files.flatMap(({ secret }) => secret!.items!.map(({ key }) => key)),
        ...(pod.containers[0]!.env ?? [])
          .map(({ valueFrom }) => valueFrom!.secretKeyRef!.key)
          .filter((key) => key !== "database-direct-url"),
      ];
      for (const key of keys) expect(row).toContain(`\`${key}\``);
    }
  });
});
