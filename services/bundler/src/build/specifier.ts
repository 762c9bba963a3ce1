/**
 * Where an import of project code leads. Pure: it looks only at the names in the module map, so nothing outside the commit and the
 * platform's own modules can be reached, and every refusal names the specifier and what is supported.
 */
import { builtinModules } from "node:module";
import { posix } from "node:path";

export type Resolution =
  | { readonly kind: "project"; readonly path: string }
  | { readonly kind: "platform"; readonly id: string }
  | { readonly kind: "external"; readonly specifier: string }
  | { readonly kind: "refused"; readonly message: string };

/** What can be seen of a commit: its names, and which of them are symbolic links. */
export interface ModuleNames {
  has(path: string): boolean;
  isSymlink(path: string): boolean;
  /** The name that differs from `path` only in case, if there is one. */
  otherCase(path: string): string | undefined;
}

/** Ids of the platform's modules by the specifier project code writes. */
export type PlatformEntries = Readonly<Record<string, string>>;

/**
 * Node builtins that project code may import: pure computation, and what the runtime implements without files, network, processes or
 * threads.
 */
export const allowedBuiltins: readonly string[] = [
  "assert",
  "assert/strict",
  "async_hooks",
  "buffer",
  "crypto",
  "diagnostics_channel",
  "events",
  "path",
  "path/posix",
  "punycode",
  "querystring",
  "stream",
  "stream/promises",
  "stream/web",
  "string_decoder",
  "timers",
  "timers/promises",
  "url",
  "util",
  "util/types",
  "zlib",
];

const allowed = new Set(allowedBuiltins);
const builtins = new Set([...builtinModules, "sqlite", "test", "sea"].map((name) => name.replace(/^node:/, "")));
const builtinList = allowedBuiltins.map((name) => `node:${name}`).join(", ");

/** Endings tried, in order, when a specifier names no file as it is written. */
const sourceEndings = [".ts", ".tsx", ".mts", ".js", ".jsx", ".mjs", ".json"];

/** A TypeScript source is imported by the name its output would have. */
const outputEndings: ReadonlyMap<string, readonly string[]> = new Map([
  [".js", [".ts", ".tsx"]],
  [".jsx", [".tsx"]],
  [".mjs", [".mts"]],
]);

/** Resolves `specifier` as written in the project file `importer`. */
export function resolveSpecifier(specifier: string, importer: string, names: ModuleNames, platform: PlatformEntries): Resolution {
  const shown = JSON.stringify(specifier.slice(0, 200));
  const refused = (message: string): Resolution => ({ kind: "refused", message });

  if (/[\u0000-\u001f\u007f\\]/.test(specifier) || specifier === "") return refused(`${shown} is not an import specifier`);
  if (/^\.\.?(\/|$)/.test(specifier)) return resolveRelative(specifier, importer, names);
  if (specifier.startsWith("/")) return refused(`${shown} is an absolute path; import files of the repo by a relative path`);
  if (specifier.startsWith("node:")) return resolveBuiltin(specifier.slice("node:".length), shown);
  if (/^cloudflare:[a-z-]+$/.test(specifier)) return { kind: "external", specifier };
  if (/^[a-z][a-z0-9+.-]*:/i.test(specifier)) return refused(`${shown} is a URL; import files of the repo by a relative path`);
  if (specifier.startsWith("#"))
    return refused(`${shown} is a package-internal import, which a build does not resolve; use a relative path`);

  const entry = Object.hasOwn(platform, specifier) ? platform[specifier] : undefined;
  if (entry !== undefined) return { kind: "platform", id: entry };
  const packageName = specifier.startsWith("@") ? specifier.split("/").slice(0, 2).join("/") : specifier.split("/")[0]!;
  if (packageName === "iterate" || packageName === "zod") {
    return refused(`${shown} does not exist for project code; there is ${platformList(platform, packageName)}`);
  }
  if (builtins.has(specifier)) {
    return refused(
      allowed.has(specifier)
        ? `write "node:${specifier}" instead of ${shown}`
        : `${shown} is a Node builtin that project code cannot use; it may use ${builtinList}`,
    );
  }
  return refused(
    `the package ${JSON.stringify(packageName.slice(0, 200))} is not available: a build installs no npm packages; ` +
      `project code may import its own files, ${platformList(platform, "iterate")}, ${platformList(platform, "zod")}, cloudflare:* and some node:* modules`,
  );
}

function resolveBuiltin(name: string, shown: string): Resolution {
  if (allowed.has(name)) return { kind: "external", specifier: `node:${name}` };
  return { kind: "refused", message: `${shown} is not available to project code; it may use ${builtinList}` };
}

function resolveRelative(specifier: string, importer: string, names: ModuleNames): Resolution {
  const shown = JSON.stringify(specifier.slice(0, 200));
  const base = posix.normalize(posix.join(posix.dirname(importer), specifier)).replace(/\/$/, "");
  if (base === ".." || base.startsWith("../") || base.startsWith("/"))
    return { kind: "refused", message: `${shown} leads out of the repo` };

  for (const candidate of candidates(base)) {
    const link = symlinkOn(candidate, names);
    if (link !== undefined)
      return {
        kind: "refused",
        message: `${shown} leads to ${JSON.stringify(link)}, a symbolic link, which no import follows; import the file itself`,
      };
    if (names.has(candidate)) return { kind: "project", path: candidate };
  }
  const other = candidates(base)
    .map((candidate) => names.otherCase(candidate))
    .find((name) => name !== undefined);
  const hint = other === undefined ? "" : `; the repo has ${JSON.stringify(other)}, and case matters`;
  return { kind: "refused", message: `the repo has no file ${JSON.stringify(base)} for ${shown}${hint}` };
}

function candidates(base: string): string[] {
  if (base === "." || base === "") return sourceEndings.map((ending) => `index${ending}`);
  const ending = posix.extname(base);
  const sources = (outputEndings.get(ending) ?? []).map((source) => base.slice(0, -ending.length) + source);
  return [
    base,
    ...sources,
    ...sourceEndings.map((source) => base + source),
    ...sourceEndings.map((source) => `${base}/index${source}`),
  ];
}

/** The first part of `path` that is a symbolic link; git lists nothing below one. */
function symlinkOn(path: string, names: ModuleNames): string | undefined {
  const parts = path.split("/");
  for (let depth = 1; depth <= parts.length; depth += 1) {
    const prefix = parts.slice(0, depth).join("/");
    if (names.isSymlink(prefix)) return prefix;
  }
  return undefined;
}

function platformList(platform: PlatformEntries, packageName: string): string {
  return Object.keys(platform)
    .filter((specifier) => specifier === packageName || specifier.startsWith(`${packageName}/`))
    .sort()
    .map((specifier) => JSON.stringify(specifier))
    .join(", ");
}
