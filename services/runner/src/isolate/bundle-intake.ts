/** A bundle as it arrives in pieces over gRPC, with every limit checked before the piece is kept. */
import { ModuleKind as WireKind, type EnsureRequest } from "@iterate-platform/proto/iterate/runner/v1/isolate";
import { codedError } from "iterate/lib";
import { assertBundle, type Bundle, type BundleRef, type ModuleKind } from "./bundle.js";
import type { IsolateLimits } from "./limits.js";

/** Largest piece of a module. */
export const chunkBytes = 1024 * 1024;

export const wireKinds = {
  esModule: WireKind.MODULE_KIND_ES_MODULE,
  json: WireKind.MODULE_KIND_JSON,
  text: WireKind.MODULE_KIND_TEXT,
  data: WireKind.MODULE_KIND_DATA,
  wasm: WireKind.MODULE_KIND_WASM,
} as const satisfies Record<ModuleKind, WireKind>;

const kinds = new Map(Object.entries(wireKinds).map(([kind, wire]) => [wire as WireKind, kind as ModuleKind]));

/**
 * Reads chunks up to the end of the bundle.
 * @throws INVALID_INPUT for a piece, a name, a kind or a sum that is not acceptable, or a stream that ends early.
 */
export async function receiveBundle(ref: BundleRef, steps: AsyncIterator<EnsureRequest>, limits: IsolateLimits): Promise<Bundle> {
  const modules = new Map<string, { kind: ModuleKind; pieces: Uint8Array[] }>();
  let bytes = 0;
  for (let next = await steps.next(); next.done !== true; next = await steps.next()) {
    const { step } = next.value;
    if (step?.$case === "end") {
      const { mainModule, entryModules } = step.value;
      const loaded = [...modules].map(([name, { kind, pieces }]) => ({ name, kind, data: Buffer.concat(pieces) }));
      const bundle: Bundle = { ...ref, modules: loaded, entryModules, ...(mainModule === "" ? {} : { mainModule }) };
      assertBundle(bundle, limits);
      return bundle;
    }
    if (step?.$case !== "chunk") throw codedError("INVALID_INPUT", "After the bundle's name come its chunks and its end.");
    const { name, kind: wire, data } = step.value;
    const kind = kinds.get(wire);
    if (kind === undefined) throw codedError("INVALID_INPUT", `The module ${JSON.stringify(name)} has no known kind.`);
    if (data.byteLength > chunkBytes)
      throw codedError("INVALID_INPUT", `A chunk has ${data.byteLength} bytes; at most ${chunkBytes} are taken.`);
    bytes += data.byteLength;
    if (bytes > limits.bundleBytes) throw codedError("INVALID_INPUT", `The bundle has more than ${limits.bundleBytes} bytes.`);
    const module = modules.get(name);
    if (module === undefined) {
      if (modules.size >= limits.bundleModules)
        throw codedError("INVALID_INPUT", `The bundle has more than ${limits.bundleModules} modules.`);
      modules.set(name, { kind, pieces: [data] });
    } else module.pieces.push(data);
  }
  throw codedError("INVALID_INPUT", "The bundle's modules ended before its end was said.");
}
