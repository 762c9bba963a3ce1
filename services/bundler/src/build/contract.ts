/** The words of a build: what goes in, what comes out, and how large either may be. */

/** One entry of a commit's tree. A symbolic link is an entry whose data is its target; nothing ever follows it. */
export interface SourceFile {
  readonly path: string;
  readonly symlink: boolean;
  readonly data: Uint8Array;
}

export type ModuleKind = "es-module" | "json" | "text" | "data" | "wasm";

export interface BuiltModule {
  readonly name: string;
  readonly kind: ModuleKind;
  readonly data: Uint8Array;
}

/** One top-level module: the source file it comes from, its built name and what it exports that looks like a class. */
export interface BuiltEntry {
  readonly file: string;
  readonly module: string;
  readonly classes: readonly string[];
}

export interface BuildOutput {
  readonly entries: readonly BuiltEntry[];
  readonly modules: readonly BuiltModule[];
}

/** A place in a project's sources and what is wrong there, in words for its author. */
export interface BuildProblem {
  readonly file: string;
  /** 1-based; absent when the whole file is meant. */
  readonly line?: number;
  /** 1-based. */
  readonly column?: number;
  readonly message: string;
}

export interface BuildLimits {
  readonly maxFiles: number;
  readonly maxFileBytes: number;
  readonly maxSourceBytes: number;
  readonly maxPathBytes: number;
  readonly maxEntries: number;
  readonly maxOutputBytes: number;
  readonly maxModuleBytes: number;
}

const MiB = 1024 * 1024;

/** Generous for code, small enough that the whole map and its output fit the memory of one job. */
export const buildLimits: BuildLimits = {
  maxFiles: 10_000,
  maxFileBytes: 4 * MiB,
  maxSourceBytes: 32 * MiB,
  maxPathBytes: 1024,
  maxEntries: 50,
  maxOutputBytes: 48 * MiB,
  maxModuleBytes: 16 * MiB,
};
