/** A bundle: the built modules of one project that a process loads, checked before any of it touches a file or a config. */
import { codedError } from "iterate/lib";
import type { IsolateLimits } from "./limits.js";

export type ModuleKind = "esModule" | "json" | "text" | "data" | "wasm";

export interface BundleModule {
  readonly name: string;
  readonly kind: ModuleKind;
  readonly data: Uint8Array;
}

export interface BundleRef {
  readonly owner: string;
  readonly digest: string;
}

export interface Bundle extends BundleRef {
  readonly modules: readonly BundleModule[];
  /** Module whose default export is the config entry point; absent when the project has none. */
  readonly mainModule?: string;
  /** Modules whose exported classes may be invoked. */
  readonly entryModules: readonly string[];
}

/** One string per (project, digest); neither part holds a space. */
export function bundleKey(ref: BundleRef): string {
  return `${ref.owner} ${ref.digest}`;
}

const ownerShape = /^[A-Za-z0-9_-]{1,128}$/;
const digestShape = /^[A-Za-z0-9_:.+=/-]{1,256}$/;
// ASCII only: the names go into a capnp text, whose escapes differ from JSON's, and come back inside messages.
const nameShape = /^[A-Za-z0-9_@+-][A-Za-z0-9_@+.-]*(\/[A-Za-z0-9_@+-][A-Za-z0-9_@+.-]*)*$/;

/** @throws INVALID_INPUT when owner or digest is not well-formed. */
export function assertBundleRef(ref: BundleRef): void {
  if (!ownerShape.test(ref.owner)) throw codedError("INVALID_INPUT", `The owner ${JSON.stringify(ref.owner)} is not well-formed.`);
  if (!digestShape.test(ref.digest))
    throw codedError("INVALID_INPUT", `The digest ${JSON.stringify(ref.digest)} is not well-formed.`);
}

/** @throws INVALID_INPUT naming the first thing wrong. */
export function assertBundle(bundle: Bundle, limits: Pick<IsolateLimits, "bundleModules" | "bundleBytes">): void {
  assertBundleRef(bundle);
  if (bundle.modules.length > limits.bundleModules) {
    throw codedError(
      "INVALID_INPUT",
      `The bundle has ${bundle.modules.length} modules; at most ${limits.bundleModules} are loaded.`,
    );
  }
  const kinds = new Map<string, ModuleKind>();
  let bytes = 0;
  for (const { name, kind, data } of bundle.modules) {
    assertModuleName(name);
    if (kinds.has(name)) throw codedError("INVALID_INPUT", `The bundle holds the module ${name} twice.`);
    kinds.set(name, kind);
    bytes += data.byteLength;
  }
  if (bytes > limits.bundleBytes) {
    throw codedError("INVALID_INPUT", `The bundle has ${bytes} bytes; at most ${limits.bundleBytes} are loaded.`);
  }
  for (const entry of entriesOf(bundle)) {
    if (kinds.get(entry) !== "esModule")
      throw codedError("INVALID_INPUT", `The entry ${entry} is not an ECMAScript module of the bundle.`);
  }
}

/** The modules the process imports, each once: the main module first. */
export function entriesOf(bundle: Pick<Bundle, "mainModule" | "entryModules">): string[] {
  return [...new Set([...(bundle.mainModule === undefined ? [] : [bundle.mainModule]), ...bundle.entryModules])];
}

/** @throws INVALID_INPUT for a name that is not a plain relative ASCII path of at most 256 characters. */
export function assertModuleName(name: string): void {
  if (name.length > 256 || !nameShape.test(name)) {
    throw codedError("INVALID_INPUT", `The module name ${JSON.stringify(name.slice(0, 256))} is not a plain relative ASCII path.`);
  }
}
