/**
 * The esbuild plugin that keeps a build inside its module map. esbuild by itself reads files in three more ways than imports: glob
 * imports, source maps named by comments, and tsconfig files; the first two are closed here, the third by the caller's options.
 */
import { hash } from "node:crypto";
import { posix } from "node:path";
import type { Loader, OnLoadResult, OnResolveArgs, OnResolveResult, Plugin } from "esbuild";
import type { BuiltModule, SourceFile } from "./contract.js";
import type { PlatformModules } from "./platform-modules.js";
import { resolveSpecifier, type ModuleNames } from "./specifier.js";

/** Loader by ending. Everything that is neither code nor JSON nor wasm is text, so no other language's imports are followed. */
const loaders: ReadonlyMap<string, Loader> = new Map<string, Loader>([
  [".ts", "ts"],
  [".mts", "ts"],
  [".tsx", "tsx"],
  [".js", "js"],
  [".mjs", "js"],
  [".jsx", "jsx"],
  [".json", "json"],
  ...[".txt", ".md", ".html", ".css", ".sql", ".svg", ".xml", ".csv", ".toml", ".yaml", ".yml"].map((ending): [string, Loader] => [
    ending,
    "text",
  ]),
]);

/** True when a build can use what the file holds; of other files only the name matters. */
export const isImportable = (path: string): boolean => loaders.has(posix.extname(path)) || posix.extname(path) === ".wasm";

/** What the attribute `with { type: … }` of an import may ask for. */
const attributeLoaders: ReadonlyMap<string, Loader> = new Map<string, Loader>([
  ["json", "json"],
  ["text", "text"],
]);

/**
 * The last such comment wins, and esbuild reads the file that a `file:` URL names: this one, added to every source, names nothing it
 * would read.
 */
const neutralSourceMap = "\n//# sourceMappingURL=none\n";

export interface BundlePluginOptions {
  readonly files: ReadonlyMap<string, SourceFile>;
  readonly names: ModuleNames;
  readonly platform: PlatformModules;
  /** Name of the module being built; assets are named relative to it. */
  readonly module: string;
  /** Takes each wasm module that is imported. */
  readonly onAsset: (asset: BuiltModule) => void;
}

/** Namespaces of the inputs a build may have; the caller checks the list of inputs against them as well. */
export const inputNamespaces = ["project", "platform"] as const;

export function bundlePlugin({ files, names, platform, module, onAsset }: BundlePluginOptions): Plugin {
  const resolve = (args: OnResolveArgs): OnResolveResult => {
    if (args.kind === "entry-point") return { path: args.path, namespace: "project" };
    if (args.namespace === "platform") return resolvePlatform(platform, args);
    if (args.namespace !== "project") return refusal(`${JSON.stringify(args.path)} is imported from outside the repo`);

    const resolution = resolveSpecifier(args.path, args.importer, names, platform.entries);
    switch (resolution.kind) {
      case "refused":
        return refusal(resolution.message);
      case "external":
        if (args.kind === "require-call")
          return refusal(
            `${JSON.stringify(args.path)} can only be imported, not required; write import … from ${JSON.stringify(resolution.specifier)}`,
          );
        return { path: resolution.specifier, external: true, sideEffects: false };
      case "platform":
        return { path: resolution.id, namespace: "platform", sideEffects: platform.modules[resolution.id]!.sideEffects };
      case "project":
        if (posix.extname(resolution.path) === ".wasm") return wasmAsset(files.get(resolution.path)!, module, args, onAsset);
        return { path: resolution.path, namespace: "project" };
    }
  };

  return {
    name: "module-map",
    setup(build) {
      build.onResolve({ filter: /.*/ }, resolve);
      build.onLoad({ filter: /.*/, namespace: "project" }, (args) => loadProject(files, args.path, args.with));
      build.onLoad({ filter: /.*/, namespace: "platform" }, (args) => loadPlatform(platform, args.path));
      // Only a glob import gets here: its matches are files of this machine, found without asking `resolve`.
      build.onLoad({ filter: /.*/ }, () => ({ errors: [{ text: computedImport }] }));
    },
  };
}

export const computedImport = "a computed import cannot be built: write the specifier as a string literal";

const refusal = (text: string): OnResolveResult => ({ errors: [{ text }] });

function resolvePlatform(platform: PlatformModules, args: OnResolveArgs): OnResolveResult {
  const id = platform.modules[args.importer]?.imports[args.path];
  if (id !== undefined) return { path: id, namespace: "platform", sideEffects: platform.modules[id]!.sideEffects };
  if (/^(node|cloudflare):/.test(args.path)) return { path: args.path, external: true, sideEffects: false };
  return refusal(`${JSON.stringify(args.path)} is not among the platform's modules`);
}

function wasmAsset(file: SourceFile, module: string, args: OnResolveArgs, onAsset: (asset: BuiltModule) => void): OnResolveResult {
  if (args.kind !== "import-statement") return refusal(`${JSON.stringify(args.path)} can only be imported by an import statement`);
  const name = `assets/${hash("sha256", file.data).slice(0, 32)}.wasm`;
  onAsset({ name, kind: "wasm", data: file.data });
  const path = posix.relative(posix.dirname(module), name);
  return { path: path.startsWith(".") ? path : `./${path}`, external: true };
}

function loadProject(
  files: ReadonlyMap<string, SourceFile>,
  path: string,
  attributes: Readonly<Record<string, string>>,
): OnLoadResult {
  const file = files.get(path);
  if (file === undefined || file.symlink) return { errors: [{ text: `the repo has no regular file ${JSON.stringify(path)}` }] };
  const asked = attributes["type"];
  const loader = asked === undefined ? loaders.get(posix.extname(path)) : attributeLoaders.get(asked);
  if (loader === undefined) {
    const what =
      asked === undefined ? `files ending in ${JSON.stringify(posix.extname(path))}` : `imports with type ${JSON.stringify(asked)}`;
    return {
      errors: [
        {
          text: `${what} cannot be built; a build takes ${[...loaders.keys()].join(" ")} .wasm, and with { type: "json" | "text" }`,
        },
      ],
    };
  }
  const isCode = loader === "ts" || loader === "tsx" || loader === "js" || loader === "jsx";
  return { contents: isCode ? Buffer.concat([file.data, Buffer.from(neutralSourceMap)]) : file.data, loader };
}

function loadPlatform(platform: PlatformModules, id: string): OnLoadResult {
  const module = platform.modules[id];
  if (module === undefined) return { errors: [{ text: `${JSON.stringify(id)} is not among the platform's modules` }] };
  return { contents: module.loader === "json" ? module.contents : module.contents + neutralSourceMap, loader: module.loader };
}
