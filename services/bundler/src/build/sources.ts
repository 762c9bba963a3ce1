/** Which files of a commit go into a build, and whether it is small enough to be built. */
import type { SizedTreeEntry } from "../repo/reader.js";
import { isImportable } from "./bundle-plugin.js";
import type { BuildLimits, BuildProblem, SourceFile } from "./contract.js";
import { manifestFile } from "./manifest.js";
import { buildFailed } from "./problem.js";

/** A file or symbolic link of a commit; submodules and what git keeps beside them are none. */
export interface Source {
  readonly entry: SizedTreeEntry;
  readonly symlink: boolean;
  /** False when only the name matters, because no import can use the content. */
  readonly isRead: boolean;
}

const symlinkMode = "120000";
const fileModes: ReadonlySet<string> = new Set(["100644", "100755", "100664"]);

/** Throws BUILD_FAILED, naming the limit, when the commit is too large to be built. Contents are not looked at. */
export function selectSources(tree: readonly SizedTreeEntry[], limits: BuildLimits): Source[] {
  if (tree.length > limits.maxFiles)
    throw buildFailed([{ file: "repo", message: `the commit has ${tree.length} files; at most ${limits.maxFiles} are built` }]);
  const sources = tree
    .filter(({ mode }) => mode === symlinkMode || fileModes.has(mode))
    .map((entry): Source => ({
      entry,
      symlink: entry.mode === symlinkMode,
      isRead: entry.mode === symlinkMode || isImportable(entry.path) || entry.path === manifestFile,
    }));

  const problems: BuildProblem[] = [];
  let bytes = 0;
  for (const { entry, isRead } of sources) {
    if (Buffer.byteLength(entry.path) > limits.maxPathBytes)
      problems.push({ file: entry.path.slice(0, 200), message: `has a path longer than ${limits.maxPathBytes} bytes` });
    if (!isRead) continue;
    if (entry.size > limits.maxFileBytes)
      problems.push({ file: entry.path, message: `has ${entry.size} bytes; a source file may have ${limits.maxFileBytes}` });
    bytes += entry.size;
  }
  if (bytes > limits.maxSourceBytes)
    problems.push({
      file: "repo",
      message: `the source files of the commit have ${bytes} bytes; at most ${limits.maxSourceBytes} are built`,
    });
  if (problems.length > 0) throw buildFailed(problems);
  return sources;
}

/** The module map: the selected files with their contents, in the order of the selection. */
export function sourceFiles(sources: readonly Source[], contents: readonly Uint8Array[]): SourceFile[] {
  let at = 0;
  return sources.map(({ entry, symlink, isRead }) => ({
    path: entry.path,
    symlink,
    data: isRead ? contents[at++]! : new Uint8Array(),
  }));
}
