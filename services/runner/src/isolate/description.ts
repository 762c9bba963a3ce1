/** What a bundle says of itself, parsed from hostile JSON. */
import { codedError } from "iterate/lib";
import { parseJson } from "./batch-frame.js";

export interface BundleDescription {
  /** The default export of the main module; null when there is none. */
  readonly entryPoint: { readonly isClass: boolean; readonly hasFetch: boolean; readonly hasProcessEvent: boolean } | null;
  readonly exports: readonly ExportDescription[];
}

export interface ExportDescription {
  readonly module: string;
  readonly name: string;
  readonly kind: string;
  /** Of a processor class. */
  readonly contract?: ContractDescription;
}

export interface ContractDescription {
  readonly slug: string;
  readonly version: string;
  readonly description: string;
  readonly consumes: readonly string[] | "*";
  readonly emits: readonly string[];
  /** JSON Schema of the state, not checked. */
  readonly stateSchema: unknown;
  /** JSON Schema of each known payload by type, not checked. */
  readonly eventSchemas: Readonly<Record<string, unknown>>;
}

const mostExports = 2_000;
const mostTypes = 1_000;
const mostChars = 4_000;

/** @throws ISOLATE_OUTPUT when it is of another shape. */
export function parseDescription(frame: Uint8Array): BundleDescription {
  const { entryPoint, exports } = record(parseJson(frame));
  return {
    entryPoint: entryPoint === null ? null : entryPointOf(record(entryPoint)),
    exports: list(exports, mostExports).map((value) => {
      const { module, name, kind, contract } = record(value);
      return {
        module: text(module),
        name: text(name),
        kind: text(kind),
        ...(contract === undefined ? {} : { contract: contractOf(record(contract)) }),
      };
    }),
  };
}

function entryPointOf({ isClass, hasFetch, hasProcessEvent }: Record<string, unknown>): BundleDescription["entryPoint"] {
  return { isClass: isClass === true, hasFetch: hasFetch === true, hasProcessEvent: hasProcessEvent === true };
}

function contractOf({
  slug,
  version,
  description,
  consumes,
  emits,
  stateSchema,
  eventSchemas,
}: Record<string, unknown>): ContractDescription {
  const types = (value: unknown) => list(value, mostTypes).map(text);
  return {
    slug: text(slug),
    version: text(version),
    description: text(description),
    consumes: consumes === "*" ? "*" : types(consumes),
    emits: types(emits),
    stateSchema: stateSchema ?? null,
    eventSchemas: record(eventSchemas),
  };
}

function record(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw notADescription();
  return value as Record<string, unknown>;
}

function list(value: unknown, most: number): readonly unknown[] {
  if (!Array.isArray(value) || value.length > most) throw notADescription();
  return value;
}

function text(value: unknown): string {
  if (typeof value !== "string" || value.length > mostChars) throw notADescription();
  return value;
}

function notADescription() {
  return codedError(
    "ISOLATE_OUTPUT",
    "The process described the bundle in a shape that is not taken: a contract lacks a field, or a list is too long.",
  );
}
