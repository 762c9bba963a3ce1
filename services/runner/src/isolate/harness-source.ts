/**
 * The harness as workerd loads it. In a build these are the compiled modules beside this file; from source their types are stripped
 * once by esbuild, which a deployment therefore never starts.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const names = [
  "main",
  "console",
  "describe",
  "egress",
  "failure",
  "frames",
  "handle-fetch",
  "host-session",
  "process-batch",
  "project-class",
  "scope",
];

let loaded: Promise<ReadonlyMap<string, string>> | undefined;

/** Module name → source, `entries.js` excepted, which is made per bundle. Read once per process. */
export function harnessSource(): Promise<ReadonlyMap<string, string>> {
  return (loaded ??= load());
}

async function load(): Promise<ReadonlyMap<string, string>> {
  const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
  const read = (name: string) => readFileSync(fileURLToPath(new URL(`./harness/${name}${extension}`, import.meta.url)), "utf8");
  if (extension === ".js") return new Map(names.map((name) => [`${name}.js`, read(name)]));
  const { transform } = await import("esbuild");
  const stripped = names.map(
    async (name) => [`${name}.js`, (await transform(read(name), { loader: "ts", format: "esm", target: "es2024" })).code] as const,
  );
  return new Map(await Promise.all(stripped));
}
