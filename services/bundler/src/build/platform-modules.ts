/**
 * The modules a deployment gives to project code: `iterate/*` and `zod`, as source text in one map, collected when the worker is
 * built. A build reads them from here and never from a disk, and their digest is part of every build's key.
 */
import { hash } from "node:crypto";
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { build, version as esbuildVersion, type Loader } from "esbuild";
import { codedError } from "iterate/lib";
import type { PlatformEntries } from "./specifier.js";

export interface PlatformModule {
  readonly contents: string;
  readonly loader: Loader;
  /** False when an unused import of the module may be dropped. */
  readonly sideEffects: boolean;
  /** Ids of the modules it imports, by the specifier it writes; other specifiers are the runtime's own. */
  readonly imports: Readonly<Record<string, string>>;
}

export interface PlatformModules {
  readonly entries: PlatformEntries;
  readonly modules: Readonly<Record<string, PlatformModule>>;
  /** SHA-256 over all of the above. */
  readonly digest: string;
}

/** What project code may import of `iterate`; the other entries are for Node programs. */
const iterateEntries = [
  "iterate/sdk",
  "iterate/stream/processor",
  "iterate/stream/test-support",
  "iterate/api",
  "iterate/events",
  "iterate/lib",
];
const zodEntries = ["zod", "zod/v4", "zod/v4/core", "zod/mini", "zod/v4/mini"];

/** Raised whenever the options or rules of a build change what it answers for the same sources. */
const rulesVersion = 1;

/** File beside the compiled worker that holds the collected map. */
export const collectedFile = join(import.meta.dirname, "..", "platform-modules.json");

/** Digest over everything but the sources that decides the bytes of a build. */
export function toolchainDigest(platform: PlatformModules): string {
  return hash("sha256", JSON.stringify({ esbuild: esbuildVersion, rules: rulesVersion, platform: platform.digest }));
}

/** The map collected when the worker was built, else collected now from the installed sources. */
export async function loadPlatformModules(): Promise<PlatformModules> {
  if (!existsSync(collectedFile)) return await collectPlatformModules();
  return JSON.parse(readFileSync(collectedFile, "utf8")) as PlatformModules;
}

/**
 * Collects every module that the entries reach, as installed beside this file. Equal sources give an equal map and digest on every
 * machine. Throws INTERNAL when an entry cannot be resolved.
 */
export async function collectPlatformModules(): Promise<PlatformModules> {
  const specifiers = [...iterateEntries, ...zodEntries];
  const result = await build({
    stdin: {
      contents: specifiers.map((specifier) => `import ${JSON.stringify(specifier)};`).join("\n"),
      resolveDir: import.meta.dirname,
      sourcefile: "entries.ts",
      loader: "ts",
    },
    bundle: true,
    write: false,
    format: "esm",
    platform: "neutral",
    mainFields: ["module", "main"],
    conditions: ["iterate-source", "workerd", "worker"],
    external: ["node:*", "cloudflare:*"],
    treeShaking: false,
    metafile: true,
    absWorkingDir: import.meta.dirname,
    tsconfigRaw: "{}",
    logLevel: "silent",
  }).catch((error: unknown) => {
    throw codedError(
      "INTERNAL",
      `the platform's modules cannot be collected: ${error instanceof Error ? error.message : String(error)}`,
    );
  });

  const ids = new Map<string, string>();
  const idOf = (input: string): string => {
    let id = ids.get(input);
    if (id === undefined) ids.set(input, (id = portableId(join(import.meta.dirname, input))));
    return id;
  };
  const modules: Record<string, PlatformModule> = {};
  const entries: Record<string, string> = {};
  for (const [input, { imports }] of Object.entries(result.metafile.inputs).sort(([a], [b]) => (a < b ? -1 : 1))) {
    const targets = imports.filter((target) => target.external !== true && target.original !== undefined);
    const resolved: Record<string, string> = Object.fromEntries(
      targets.map((target): [string, string] => [target.original!, idOf(target.path)]).sort(([a], [b]) => (a < b ? -1 : 1)),
    );
    if (input === "entries.ts" || input === "<stdin>") {
      Object.assign(entries, resolved);
      continue;
    }
    const file = join(import.meta.dirname, input);
    modules[idOf(input)] = {
      contents: readFileSync(file, "utf8"),
      loader: loaderOf(file),
      sideEffects: hasSideEffects(file),
      imports: resolved,
    };
  }
  withoutCodeGeneration(entries, modules);
  const sorted = Object.fromEntries(Object.entries(modules).sort(([a], [b]) => (a < b ? -1 : 1)));
  return { entries, modules: sorted, digest: hash("sha256", JSON.stringify({ entries, modules: sorted })) };
}

/**
 * The runtime refuses code generation, so zod must be told to interpret before any schema is parsed: each of its entries is reached
 * through a module that says so first.
 */
function withoutCodeGeneration(entries: Record<string, string>, modules: Record<string, PlatformModule>): void {
  const core = entries["zod/v4/core"];
  if (core === undefined) throw codedError("INTERNAL", "the installed zod has no zod/v4/core");
  const switchId = "zod/jitless";
  modules[switchId] = {
    contents: `import { config } from "core";\nconfig({ jitless: true });\n`,
    loader: "js",
    sideEffects: true,
    imports: { core },
  };
  const wrapped = new Map<string, string>();
  for (const specifier of zodEntries) {
    const target = entries[specifier];
    if (target === undefined) throw codedError("INTERNAL", `the installed zod has no ${specifier}`);
    const id = `zod/jitless:${specifier}`;
    const hasDefault = /\bas default\b|export default\b/.test(modules[target]!.contents);
    const contents = `import "switch";\nexport * from "target";\n${hasDefault ? `export { default } from "target";\n` : ""}`;
    modules[id] = { contents, loader: "js", sideEffects: true, imports: { switch: switchId, target } };
    entries[specifier] = id;
    wrapped.set(target, id);
  }
  for (const [id, module] of Object.entries(modules)) {
    if (id.startsWith("zod/")) continue;
    modules[id] = {
      ...module,
      imports: Object.fromEntries(
        Object.entries(module.imports).map(([specifier, target]) => [specifier, wrapped.get(target) ?? target]),
      ),
    };
  }
}

/** `<package>/<path inside it>`: the same on every machine, whatever folder the package was installed in. */
function portableId(file: string): string {
  const root = packageRoot(file);
  const name = (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { name: string }).name;
  return `${name}/${relative(root, realpathSync(file)).split(sep).join("/")}`;
}

/** The folder of the nearest package.json that names a package: nested ones only switch module types. */
function packageRoot(file: string): string {
  for (let folder = dirname(realpathSync(file)); ; folder = dirname(folder)) {
    const manifest = join(folder, "package.json");
    if (existsSync(manifest) && "version" in (JSON.parse(readFileSync(manifest, "utf8")) as object)) return folder;
    if (folder === dirname(folder)) throw codedError("INTERNAL", `${file} belongs to no package`);
  }
}

function hasSideEffects(file: string): boolean {
  const root = packageRoot(file);
  const { sideEffects } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { sideEffects?: boolean | string[] };
  if (!Array.isArray(sideEffects)) return sideEffects ?? true;
  const path = `./${relative(root, realpathSync(file)).split(sep).join("/")}`;
  return sideEffects.some((pattern) => pattern.includes("*") || pattern === path);
}

function loaderOf(file: string): Loader {
  if (file.endsWith(".ts")) return "ts";
  return file.endsWith(".json") ? "json" : "js";
}
