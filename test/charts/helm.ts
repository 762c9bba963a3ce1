/**
 * The real helm over a copy of the charts: tests change nothing of the checkout. The pinned helm is fetched when it is not there yet;
 * HELM names another one.
 */
import { execFile, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";
import type { KubernetesObject } from "./kubernetes-objects.js";

export const repositoryRoot = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Where helm is, or nothing when it cannot be had: the suite is then skipped and says so.
 *
 * @throws Error instead when REQUIRE_ALL is 1.
 */
export function findHelm(): string | undefined {
  if (process.env.HELM !== undefined) return process.env.HELM;
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(repositoryRoot, "tools/helm.mjs"), "helm"], {
    encoding: "utf8",
  });
  if (status === 0) return stdout.trim();
  if (process.env.REQUIRE_ALL === "1") throw new Error(stderr);
  process.stderr.write(`suite skipped, ${stderr}`);
  return undefined;
}

/** Helm 3 asks a cluster before it shows what it would tell an installer. */
export function showsNotesWithoutCluster(helm: string): boolean {
  return !spawnSync(helm, ["version", "--short"], { encoding: "utf8" }).stdout.startsWith("v3.");
}

/** Values as a file would hold them. */
export type Values = Readonly<Record<string, unknown>>;

/** The least that can be deployed: charts/iterate/ci/minimal-values.yaml. */
const minimal = ["--values", join(repositoryRoot, "charts/iterate/ci/minimal-values.yaml")];

export class Charts {
  readonly #helm: string;
  readonly #folder = mkdtempSync(join(tmpdir(), "charts-"));
  #files = 0;

  /** Copies the charts and puts the library into the umbrella, as an installation does. */
  constructor(helm: string) {
    this.#helm = helm;
    cpSync(join(repositoryRoot, "charts"), this.#folder, { recursive: true });
    const built = spawnSync(helm, ["dependency", "build", this.chart], { encoding: "utf8" });
    if (built.status !== 0) throw new Error(built.stderr);
  }

  get chart(): string {
    return join(this.#folder, "iterate");
  }

  /** The objects of a release `it` in the namespace `platform`. @throws Error with what helm says. */
  async template(values: Values = {}, options: readonly string[] = []): Promise<KubernetesObject[]> {
    const args = ["template", "it", this.chart, "--namespace", "platform", ...minimal, "--values", this.#file(values), ...options];
    const text = await this.#run(args);
    return parseAllDocuments(text, { version: "1.1" })
      .map((document) => document.toJS() as KubernetesObject | null)
      .filter((object) => object !== null);
  }

  /** Why these values cannot be deployed. @throws Error when they can. */
  async refusal(values: Values): Promise<string> {
    return await this.template(values).then(
      () => {
        throw new Error("the values were accepted");
      },
      (error: unknown) => (error as Error).message,
    );
  }

  lint(): Promise<string> {
    return this.#run(["lint", "--strict", this.chart, ...minimal]);
  }

  /** What an installer is told at the end. */
  async notes(values: Values = {}): Promise<string> {
    const args = [
      "install",
      "it",
      this.chart,
      "--namespace",
      "platform",
      "--dry-run=client",
      ...minimal,
      "--values",
      this.#file(values),
    ];
    return (await this.#run(args)).split("\nNOTES:\n")[1] ?? "";
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  // JSON is YAML.
  #file(values: Values): string {
    const file = join(this.#folder, `values-${++this.#files}.json`);
    writeFileSync(file, JSON.stringify(values));
    return file;
  }

  /** Standard output; rejects with standard error when helm fails. */
  #run(args: readonly string[]): Promise<string> {
    const environment = { PATH: process.env.PATH, HOME: this.#folder };
    return new Promise((resolve, reject) => {
      execFile(this.#helm, args, { env: environment, timeout: 60_000, maxBuffer: 16 * 2 ** 20 }, (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(new Error(stderr || stdout || error.message));
      });
    });
  }
}
