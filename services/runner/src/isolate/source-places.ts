/**
 * Stacks speak of lines of built modules; a person knows those of the sources. A build puts `<module>.map` beside each module, and
 * that says which line a place was written on. Maps are looked at when a stack is, and only while they are small.
 */
import { SourceMap, type SourceMapping, type SourceMapPayload } from "node:module";
import type { Bundle } from "./bundle.js";
import { bundleFolder } from "./workerd-config.js";

/** Bytes of a map that are still parsed; a larger one would hold the process that serves all projects. */
const maxMapBytes = 4 * 1024 * 1024;

/** `counter.js:20906:41`, in a line that begins with `at`. */
const frame = /^\s+at /;
const place = /((?:[\w@+.-]+\/)*[\w@+.-]+\.js):(\d{1,9}):(\d{1,9})/g;
/** Namespaces that a build gives its inputs. */
const namespace = /^(?:project|platform):/;

type Maps = ReadonlyMap<string, Uint8Array>;

const parsed = new WeakMap<Uint8Array, SourceMap | null>();

/** Rewrites the frames of any stack in a text; a place that no map knows, and every other line, stays as it is. */
export function toSourcePlaces(text: string, { modules }: Pick<Bundle, "modules">): string {
  if (!text.includes("\n")) return text;
  const maps: Maps = new Map(modules.filter(({ name }) => name.endsWith(".js.map")).map(({ name, data }) => [name, data]));
  if (maps.size === 0) return text;
  return text
    .split("\n")
    .map((line) => (frame.test(line) ? line.replace(place, (whole, ...at: string[]) => sourceOf(maps, whole, at)) : line))
    .join("\n");
}

function sourceOf(maps: Maps, whole: string, [module = "", line, column]: readonly string[]): string {
  // The runtime has all modules in a folder of its own; a project may have one of that name.
  const data = maps.get(`${module}.map`) ?? maps.get(`${withoutFolder(module)}.map`);
  const map = data === undefined ? null : mapOf(data);
  if (map === null) return whole;
  // The places of a stack begin with 1, those of a map with 0.
  const entry: Partial<SourceMapping> = map.findEntry(Number(line) - 1, Number(column) - 1);
  const { originalSource, originalLine, originalColumn } = entry;
  if (typeof originalSource !== "string" || originalLine === undefined || originalColumn === undefined) return whole;
  return `${originalSource.replace(namespace, "")}:${originalLine + 1}:${originalColumn + 1}`;
}

function withoutFolder(module: string): string {
  return module.startsWith(bundleFolder) ? module.slice(bundleFolder.length) : module;
}

/** Null for what is too large or no map. */
function mapOf(data: Uint8Array): SourceMap | null {
  const known = parsed.get(data);
  if (known !== undefined) return known;
  const map = data.byteLength > maxMapBytes ? null : parse(data);
  parsed.set(data, map);
  return map;
}

function parse(data: Uint8Array): SourceMap | null {
  try {
    return new SourceMap(JSON.parse(Buffer.from(data).toString()) as SourceMapPayload);
  } catch {
    return null;
  }
}
