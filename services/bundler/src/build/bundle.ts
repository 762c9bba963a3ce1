/**
 * Bundles a module map with esbuild: each entry becomes one self-contained ES module with a source map beside it. Deterministic, and
 * reads and writes no file. Runs in a job's own process, because hostile sources decide how much it works.
 */
import { posix } from "node:path";
import { build, type BuildFailure, type Message } from "esbuild";
import { bundlePlugin, computedImport, inputNamespaces } from "./bundle-plugin.js";
import type { BuildLimits, BuildOutput, BuildProblem, BuiltEntry, BuiltModule, SourceFile } from "./contract.js";
import type { PlatformModules } from "./platform-modules.js";
import { buildFailed } from "./problem.js";
import type { ModuleNames } from "./specifier.js";

export interface BundleInput {
  readonly entries: readonly string[];
  readonly files: readonly SourceFile[];
  readonly platform: PlatformModules;
  readonly limits: BuildLimits;
}

/** Throws BUILD_FAILED naming file and line. The same input gives the same bytes on every machine. */
export async function bundle({ entries, files, platform, limits }: BundleInput): Promise<BuildOutput> {
  const map = new Map(files.map((file) => [file.path, file]));
  const names = moduleNames(map);
  const moduleOf = nameModules(entries);

  const modules = new Map<string, BuiltModule>();
  const built: BuiltEntry[] = [];
  let bytes = 0;
  const add = (module: BuiltModule, file: string): void => {
    if (modules.has(module.name)) return;
    if (module.data.byteLength > limits.maxModuleBytes)
      throw buildFailed([
        {
          file,
          message: `makes the module ${module.name} of ${module.data.byteLength} bytes; at most ${limits.maxModuleBytes} are loaded`,
        },
      ]);
    bytes += module.data.byteLength;
    if (bytes > limits.maxOutputBytes)
      throw buildFailed([{ file, message: `the modules of this build have more than ${limits.maxOutputBytes} bytes together` }]);
    modules.set(module.name, module);
  };

  // One entry after the other: none shares a chunk with another, and each names its assets relative to itself.
  for (const file of entries) {
    const source = map.get(file);
    if (source === undefined || source.symlink) throw buildFailed([{ file, message: "is not a regular file of the repo" }]);
    const module = moduleOf.get(file)!;
    const plugin = bundlePlugin({ files: map, names, platform, module, onAsset: (asset) => add(asset, file) });
    const result = await build({
      entryPoints: [{ in: file, out: module.replace(/\.js$/, "") }],
      outdir: "/",
      absWorkingDir: "/",
      bundle: true,
      write: false,
      metafile: true,
      format: "esm",
      platform: "neutral",
      target: "es2023",
      charset: "utf8",
      treeShaking: true,
      legalComments: "none",
      sourcemap: "external",
      sourcesContent: false,
      define: { "process.env.NODE_ENV": '"production"' },
      tsconfigRaw: { compilerOptions: { target: "es2023", useDefineForClassFields: true } },
      logLevel: "silent",
      logLimit: 50,
      logOverride: { "unsupported-dynamic-import": "error", "unsupported-require-call": "error", "indirect-require": "error" },
      plugins: [plugin],
    }).catch((error: unknown) => {
      throw isBuildFailure(error) ? buildFailed(error.errors.map((message) => problemOf(message, file))) : error;
    });

    const stray = Object.keys(result.metafile.inputs).find(
      (input) => !inputNamespaces.some((namespace) => input.startsWith(`${namespace}:`)),
    );
    if (stray !== undefined) throw buildFailed([{ file, message: computedImport }]);
    for (const output of result.outputFiles) {
      const isMap = output.path.endsWith(".map");
      add({ name: posix.relative("/", output.path), kind: isMap ? "json" : "es-module", data: output.contents }, file);
    }
    built.push({ file, module, classes: exportedClasses(Buffer.from(modules.get(module)!.data).toString("utf8")) });
  }
  return { entries: built, modules: [...modules.values()].sort((a, b) => (a.name < b.name ? -1 : 1)) };
}

/** `triage.ts` → `triage.js`. Throws BUILD_FAILED when two entries would share a name. */
function nameModules(entries: readonly string[]): Map<string, string> {
  const taken = new Map<string, string>();
  return new Map(
    entries.map((file) => {
      const module = file.replace(/\.[^./]+$/, ".js");
      const other = taken.get(module);
      if (other !== undefined)
        throw buildFailed([{ file, message: `would be built as ${module}, and so would ${other}; rename one of them` }]);
      taken.set(module, file);
      return [file, module];
    }),
  );
}

function moduleNames(map: ReadonlyMap<string, SourceFile>): ModuleNames {
  const byLowerCase = new Map([...map.keys()].map((path) => [path.toLowerCase(), path]));
  return {
    has: (path) => map.has(path),
    isSymlink: (path) => map.get(path)?.symlink ?? false,
    otherCase: (path) => (map.has(path) ? undefined : byLowerCase.get(path.toLowerCase())),
  };
}

/** Exported names bound to a class, from esbuild's own output, whose form it fixes. The default export is not among them. */
export function exportedClasses(code: string): string[] {
  const clause = /(?:^|\n)export \{\n([^}]*)\n\};\s*$/.exec(code);
  if (clause === null) return [];
  return clause[1]!
    .split(",")
    .map((part) => part.trim().split(" as "))
    .filter(([local, exported]) => local !== undefined && local !== "" && exported !== "default" && isClass(code, local))
    .map(([local, exported]) => exported ?? local!);
}

function isClass(code: string, local: string): boolean {
  const name = local.replaceAll("$", "\\$");
  return new RegExp(`(?:^|[^\\w$.])(?:class ${name}|${name} = class)(?![\\w$])`).test(code);
}

const isBuildFailure = (error: unknown): error is BuildFailure =>
  error instanceof Error && Array.isArray((error as Partial<BuildFailure>).errors);

function problemOf({ text, location }: Message, entry: string): BuildProblem {
  const isComputed = /will not be bundled|was not recognized because|^Could not resolve (import|require)\(/.test(text);
  const message = isComputed ? computedImport : text;
  if (location === null) return { file: entry, message };
  return { file: location.file.replace(/^(project|platform):/, ""), line: location.line, column: location.column + 1, message };
}
