/**
 * `iterate.toml`: what a project declares about its code. Pure: text in, declarations or BUILD_FAILED out; every error names the
 * line or table and what to write instead.
 */
import { assertContextPath } from "iterate/lib";
import { parse as parseToml, TomlError } from "smol-toml";
import { z } from "zod";
import type { BuildProblem } from "./contract.js";
import { buildFailed } from "./problem.js";

export const manifestFile = "iterate.toml";

/** Used when `[project] main` is absent and the repo has this file. */
export const defaultMain = "worker.ts";

export interface ProcessorDeclaration {
  /** Name of the subscription row and of the facet. */
  readonly name: string;
  readonly file: string;
  readonly className: string;
  /** Context whose events the processor is given. */
  readonly context: string;
}

export interface Manifest {
  /** File whose default export is the config entry point; null when the project has none. */
  readonly main: string | null;
  /** In the order of the file. */
  readonly processors: readonly ProcessorDeclaration[];
}

export const maxManifestBytes = 64 * 1024;
export const maxProcessors = 100;

const example = `e.g.\n[project]\nmain = "worker.ts"\n\n[processors.triage]\nmodule = "triage.ts"\nclass = "TriageDurableObject"\ncontext = "/integrations/github/main"`;

/** Letters, digits, `_` and `-`; words that would meet object prototypes or the platform's own row are refused. */
const processorName = /^[A-Za-z0-9_-]{1,128}$/;
const reservedNames = new Set(["core", "constructor", "prototype", "__proto__", "publication"]);
const identifier = /^[A-Za-z_$][A-Za-z0-9_$]{0,127}$/;

const sourcePath = z
  .string()
  .refine((path) => isRepoPath(path), 'must be a file of the repo, relative to its root, without "./", ".." or a leading "/"')
  .refine((path) => /\.(ts|tsx|mts|js|jsx|mjs)$/.test(path), "must be a TypeScript or JavaScript file");

const schema = z.strictObject({
  project: z.strictObject({ main: sourcePath.optional() }).optional(),
  processors: z
    .record(
      z.string(),
      z.strictObject({
        module: sourcePath,
        class: z.string().regex(identifier, "must be the name of an exported class"),
        context: z.string().refine(isContextPath, 'must be an absolute context path, e.g. "/integrations/github/main"'),
      }),
    )
    .optional(),
});

/**
 * Reads the declarations of a commit. `text` is the file's content, undefined when the commit has none; `hasFile` answers whether
 * the commit holds a regular file. Throws BUILD_FAILED. Not retryable.
 */
export function parseManifest(text: string | undefined, hasFile: (path: string) => boolean): Manifest {
  if (text === undefined)
    throw buildFailed([{ file: manifestFile, message: `the repo has no ${manifestFile} at its root; add one, ${example}` }]);
  if (Buffer.byteLength(text) > maxManifestBytes)
    throw buildFailed([
      { file: manifestFile, message: `has ${Buffer.byteLength(text)} bytes; at most ${maxManifestBytes} are read` },
    ]);

  let document: unknown;
  try {
    document = parseToml(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw buildFailed([{ file: manifestFile, message: "is not TOML" }]);
    throw buildFailed([
      {
        file: manifestFile,
        line: error.line,
        column: error.column,
        message: error.message.split("\n")[0]!.replace(/^Invalid TOML document: /, "is not TOML: "),
      },
    ]);
  }

  const parsed = schema.safeParse(document);
  const lines = text.split("\n");
  if (!parsed.success) throw buildFailed(parsed.error.issues.map((issue) => problemOf(issue, lines)));

  const processors = Object.entries(parsed.data.processors ?? {}).map(
    ([name, { module, class: className, context }]): ProcessorDeclaration => ({ name, file: module, className, context }),
  );
  const problems: BuildProblem[] = [];
  const refuse = (path: readonly string[], message: string): void => void problems.push({ ...placeOf(path, lines), message });
  if (processors.length > maxProcessors)
    refuse(["processors"], `declares ${processors.length} processors; at most ${maxProcessors} are taken`);
  for (const { name, file } of processors) {
    const table = ["processors", name];
    if (!processorName.test(name))
      refuse(table, `the name ${JSON.stringify(name)} may only have letters, digits, "_" and "-", at most 128`);
    else if (reservedNames.has(name)) refuse(table, `the name ${JSON.stringify(name)} is reserved; choose another`);
    if (!hasFile(file)) refuse([...table, "module"], `the commit has no file ${JSON.stringify(file)}; add it or correct the name`);
  }
  const named = parsed.data.project?.main;
  if (named !== undefined && !hasFile(named))
    refuse(["project", "main"], `the commit has no file ${JSON.stringify(named)}; add it or correct the name`);
  if (problems.length > 0) throw buildFailed(problems);

  return { main: named ?? (hasFile(defaultMain) ? defaultMain : null), processors };
}

/** The files that become top-level modules: the main module first, then the processors' modules, each once. */
export function manifestEntries({ main, processors }: Manifest): string[] {
  return [...new Set([...(main === null ? [] : [main]), ...processors.map((processor) => processor.file)])];
}

/** True for a normal relative path as git lists it. */
export function isRepoPath(path: string): boolean {
  return (
    path !== "" &&
    path.isWellFormed() &&
    !/[\u0000-\u001f\u007f\\]/.test(path) &&
    path.split("/").every((part) => part !== "" && part !== "." && part !== "..")
  );
}

function isContextPath(path: string): boolean {
  try {
    assertContextPath(path);
    return true;
  } catch {
    return false;
  }
}

function problemOf(issue: z.core.$ZodIssue, lines: readonly string[]): BuildProblem {
  const path = issue.path.map(String);
  if (issue.code === "unrecognized_keys") {
    const key = issue.keys[0]!;
    const known =
      path.length === 0 ? "[project] and [processors.<name>]" : path[0] === "project" ? "main" : "module, class and context";
    return { ...placeOf([...path, key], lines), message: `${JSON.stringify(key)} is not known here; known: ${known}` };
  }
  const missing = issue.code === "invalid_type" && issue.input === undefined && /received undefined/.test(issue.message);
  const key = path.at(-1) ?? manifestFile;
  return {
    ...placeOf(path, lines),
    message: missing ? `${tableName(path.slice(0, -1))} needs ${key} = "…"` : `${key} ${lowerFirst(issue.message)}`,
  };
}

const lowerFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);

const tableName = (path: readonly string[]): string => `[${path.join(".")}]`;

/** The line of a key, else of its table, else the file: found in the text, because a parsed document keeps no places. */
function placeOf(path: readonly string[], lines: readonly string[]): { file: string; line?: number } {
  for (let depth = path.length; depth > 0; depth -= 1) {
    const header = lines.findIndex((line) => isHeader(line, path.slice(0, depth)));
    if (header < 0) continue;
    const key = path[depth];
    if (key !== undefined) {
      for (let at = header + 1; at < lines.length && !/^\s*\[/.test(lines[at]!); at += 1) {
        if (isKey(lines[at]!, key)) return { file: manifestFile, line: at + 1 };
      }
    }
    return { file: manifestFile, line: header + 1 };
  }
  const key = path[0];
  const top = key === undefined ? -1 : lines.findIndex((line) => isKey(line, key));
  return top < 0 ? { file: manifestFile } : { file: manifestFile, line: top + 1 };
}

function isHeader(line: string, path: readonly string[]): boolean {
  const match = /^\s*\[\s*([^\]]+?)\s*\]/.exec(line);
  return (
    match !== null &&
    match[1]!
      .split(".")
      .map((part) => part.trim().replace(/^["'](.*)["']$/, "$1"))
      .join("\0") === path.join("\0")
  );
}

function isKey(line: string, key: string): boolean {
  const match = /^\s*["']?([A-Za-z0-9_-]+)["']?\s*(=|\.)/.exec(line);
  return match !== null && match[1] === key;
}
