/** The names of builds: the key of what goes in, the identity of one module and the digest of all that comes out. Pure. */
import { hash } from "node:crypto";
import type { BuiltEntry, BuiltModule } from "./contract.js";

/** One line of a commit's tree, as git lists it. */
export interface TreeEntry {
  readonly mode: string;
  readonly oid: string;
  readonly path: string;
}

export interface BuildKeyInput {
  readonly tree: readonly TreeEntry[];
  /** Digest of the toolchain, the SDK included. */
  readonly toolchain: string;
}

/** Equal keys give equal bytes: a hash over every input and every tool. The commit's message and date are no inputs. */
export function buildKey({ tree, toolchain }: BuildKeyInput): string {
  return hash("sha256", JSON.stringify(["build", 1, toolchain, tree.map(({ mode, oid, path }) => [mode, oid, path])]));
}

/** Identity of a module: a hash over its code, which spells the digest of each asset it loads. Its source map is not loaded. */
export function moduleIdentity(code: Uint8Array): string {
  return hash("sha256", code);
}

/** Digest over every module and its place. */
export function bundleDigest(
  mainModule: string,
  entries: readonly BuiltEntry[],
  modules: readonly Pick<BuiltModule, "name" | "kind" | "data">[],
): string {
  const places = entries.map(({ file, module }) => [file, module]).sort(byFirst);
  const contents = modules.map(({ name, kind, data }) => [name, kind, hash("sha256", data)]).sort(byFirst);
  return hash("sha256", JSON.stringify(["bundle", 1, mainModule, places, contents]));
}

const byFirst = (a: readonly string[], b: readonly string[]): number => (a[0]! < b[0]! ? -1 : a[0]! > b[0]! ? 1 : 0);
