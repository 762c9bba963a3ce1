/**
 * Builds commits: reads the tree, and either finds the build that its key names or has a worker make it once, however many ask at
 * the same time. What a worker answers is checked before it is kept.
 */
import { codedError } from "iterate/lib";
import type { Reader } from "../repo/reader.js";
import type { RepoCache } from "../repo/repo-cache.js";
import type { RepoName } from "../repo/contract.js";
import type { BuildStore, Bundle, BundleEntry } from "./build-store.js";
import type { BuildLimits, BuildOutput, SourceFile } from "./contract.js";
import { buildKey, bundleDigest, moduleIdentity } from "./digest.js";
import { Flights, type Progress } from "./flights.js";
import { manifestEntries, manifestFile, parseManifest, type Manifest } from "./manifest.js";
import { buildFailed } from "./problem.js";
import { selectSources, sourceFiles, type Source } from "./sources.js";

/** Makes the modules of a module map; in the service, another process. */
export interface BuildWorker {
  /**
   * Throws BUILD_FAILED when the sources are refused, OVERLOADED, UNAVAILABLE when there is no worker or it has another toolchain,
   * CANCELLED when `signal` fires.
   */
  build(
    job: { entries: readonly string[]; files: readonly SourceFile[]; toolchain: string },
    signal: AbortSignal,
  ): Promise<BuildOutput>;
}

export interface BuilderParts {
  readonly repos: RepoCache;
  readonly reader: Reader;
  readonly store: BuildStore;
  readonly worker: BuildWorker;
  readonly limits: BuildLimits;
  /** Digest of everything but the sources that decides the bytes. */
  readonly toolchain: string;
}

export interface BuildInput {
  readonly repo: RepoName;
  readonly commit: string;
  readonly onProgress: (progress: Progress) => void;
  readonly signal: AbortSignal;
}

export class Builder {
  readonly #parts: BuilderParts;
  readonly #flights = new Flights<Bundle>();

  constructor(parts: BuilderParts) {
    this.#parts = parts;
  }

  /**
   * The bundle of a commit, and whether it existed. Safe to repeat. Throws BUILD_FAILED naming file and line, NOT_FOUND for a commit
   * that is not there, OVERLOADED, UNAVAILABLE; CANCELLED when `signal` fires, which ends the build if nobody else waits for it.
   */
  async build({ repo, commit, onProgress, signal }: BuildInput): Promise<{ bundle: Bundle; cached: boolean }> {
    const { repos, reader, store, limits, toolchain } = this.#parts;
    const bare = await repos.find(repo);
    if (bare === undefined) throw codedError("NOT_FOUND", `the project has no repository ${repo.path}`);
    onProgress({ stage: "read", message: `reading commit ${commit}` });
    const tree = await reader.tree(bare, commit);
    const sources = selectSources(tree, limits);
    const key = buildKey({ tree, toolchain });
    const existing = await store.find(repo.owner, key);
    if (existing !== undefined) return { bundle: existing, cached: true };

    const bundle = await this.#flights.join(`${repo.owner} ${key}`, { onProgress, signal }, async (flight) => {
      const contents = await reader.contents(
        bare,
        sources.filter(({ isRead }) => isRead).map(({ entry }) => entry),
      );
      return await this.#make(repo.owner, key, sources, sourceFiles(sources, contents), flight);
    });
    return { bundle, cached: false };
  }

  async #make(
    owner: string,
    key: string,
    sources: readonly Source[],
    files: readonly SourceFile[],
    { onProgress, signal }: { onProgress: (progress: Progress) => void; signal: AbortSignal },
  ): Promise<Bundle> {
    const { store, worker, limits, toolchain } = this.#parts;
    const regular = new Map(files.filter(({ symlink }) => !symlink).map((file) => [file.path, file]));
    const manifest = parseManifest(text(regular.get(manifestFile)), (path) => regular.has(path));
    const entries = manifestEntries(manifest);
    if (entries.length > limits.maxEntries)
      throw buildFailed([
        { file: manifestFile, message: `names ${entries.length} modules; at most ${limits.maxEntries} are built` },
      ]);
    onProgress({ stage: "bundle", message: `bundling ${entries.join(", ") || "nothing"} with ${sources.length} files at hand` });
    const output = entries.length === 0 ? { entries: [], modules: [] } : await worker.build({ entries, files, toolchain }, signal);
    const bundle = bundleOf(manifest, entries, output);
    onProgress({ stage: "store", message: `storing ${output.modules.length} modules as ${bundle.digest}` });
    await store.keep(owner, key, bundle, output.modules);
    return bundle;
  }
}

function text(file: SourceFile | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(file.data);
  } catch {
    throw buildFailed([{ file: file.path, message: "is not UTF-8 text" }]);
  }
}

/** Checks what the worker made against what was asked, and names it. */
function bundleOf(manifest: Manifest, asked: readonly string[], output: BuildOutput): Bundle {
  const modules = new Map(output.modules.map((module) => [module.name, module]));
  if (modules.size !== output.modules.length || output.entries.map(({ file }) => file).join("\0") !== asked.join("\0")) {
    throw codedError("INTERNAL", "the build worker answered other modules than were asked for");
  }
  const entries = output.entries.map(({ file, module, classes }): BundleEntry => {
    const code = modules.get(module);
    if (code?.kind !== "es-module") throw codedError("INTERNAL", `the build worker answered no module for ${file}`);
    return { file, module, classes, identity: moduleIdentity(code.data) };
  });
  const byFile = new Map(entries.map((entry) => [entry.file, entry]));
  const problems = manifest.processors
    .filter(({ file, className }) => !byFile.get(file)!.classes.includes(className))
    .map(({ name, file, className }) => {
      const { classes } = byFile.get(file)!;
      const exported = classes.length === 0 ? "it exports no class by name" : `it exports ${classes.slice(0, 20).join(", ")}`;
      return { file: manifestFile, message: `[processors.${name}] class ${className} is not exported by ${file}; ${exported}` };
    });
  if (problems.length > 0) throw buildFailed(problems);
  const mainModule = manifest.main === null ? null : byFile.get(manifest.main)!.module;
  return { digest: bundleDigest(mainModule ?? "", entries, output.modules), mainModule, entries, processors: manifest.processors };
}
