/**
 * What one workerd process is started with: a config text and the files it embeds. Static config, one worker, no ambient
 * authority: no file system, no environment, and a network that ends in two sockets of the supervisor.
 */
import { bundleKey, entriesOf, type Bundle, type ModuleKind } from "./bundle.js";
import type { IsolateLimits } from "./limits.js";

/** Folder of the project's modules inside the worker; messages lose it again before a person reads them. */
export const bundleFolder = "bundle/";

export interface WorkerdSockets {
  /** workerd listens: invocations come in. */
  readonly inPath: string;
  /** The supervisor listens: host calls go out. */
  readonly hostPath: string;
  /** The supervisor listens: whatever the code sends to a network. */
  readonly egressPath: string;
}

export interface WorkerdFile {
  readonly name: string;
  readonly data: string | Uint8Array;
}

export interface ConfigInput {
  readonly bundle: Bundle;
  /** The harness, by module name; `main.js` is its entry. */
  readonly harness: ReadonlyMap<string, string>;
  readonly sockets: WorkerdSockets;
  /** Secret of this process, added by workerd to what leaves through the host and egress sockets. */
  readonly token: string;
  readonly limits: Pick<IsolateLimits, "heapMiB">;
}

const compatibilityDate = "2026-11-01";
export const configFileName = "config.capnp";

/** The config text and the files beside it. Pure: equal input, equal bytes. The bundle has passed `assertBundle`. */
export function workerdFiles(input: ConfigInput): WorkerdFile[] {
  const files: WorkerdFile[] = [];
  const modules: string[] = [];
  const add = (moduleName: string, kind: ModuleKind, data: string | Uint8Array) => {
    const file = `m${files.length}`;
    files.push({ name: file, data });
    modules.push(`(name = ${text(moduleName)}, ${kind} = embed ${text(file)})`);
  };
  const harness = new Map(input.harness).set("entries.js", entriesModule(input.bundle));
  // The first module is the worker's main one.
  add("harness/main.js", "esModule", harness.get("main.js") ?? "");
  for (const [name, source] of harness) if (name !== "main.js") add(`harness/${name}`, "esModule", source);
  for (const module of input.bundle.modules) add(bundleFolder + module.name, module.kind, module.data);
  return [...files, { name: configFileName, data: configText(input, modules) }];
}

function configText({ sockets, token, limits }: ConfigInput, modules: readonly string[]): string {
  const stamp = `injectRequestHeaders = [(name = "authorization", value = ${text(`Bearer ${token}`)})]`;
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  v8Flags = ["--max-old-space-size=${limits.heapMiB}", "--max-semi-space-size=4"],
  logging = (structuredLogging = true),
  services = [
    (name = "project", worker = (
      modules = [
        ${modules.join(",\n        ")}
      ],
      compatibilityDate = ${text(compatibilityDate)},
      compatibilityFlags = ["disallow_importable_env"],
      bindings = [(name = "HOST", service = "host")],
      globalOutbound = "egress")),
    (name = "host", external = (address = ${text(`unix:${sockets.hostPath}`)}, http = (${stamp}))),
    (name = "egress", external = (address = ${text(`unix:${sockets.egressPath}`)}, http = (style = proxy, ${stamp}))),
    # Named so that nothing defines it implicitly as the public internet.
    (name = "internet", network = (allow = [])),
  ],
  sockets = [(name = "in", address = ${text(`unix:${sockets.inPath}`)}, http = (forwardedProtoHeader = "x-iterate-scheme"), service = "project")],
);
`;
}

/** The module that joins harness and project: static imports, so that what does not load fails at start and not in a call. */
function entriesModule(bundle: Bundle): string {
  const entries = entriesOf(bundle);
  const imports = entries.map((name, i) => `import * as m${i} from ${JSON.stringify(`../${bundleFolder}${name}`)};`);
  const pairs = entries.map((name, i) => `[${JSON.stringify(name)}, m${i}]`);
  return `// ${bundleKey(bundle)}
${imports.join("\n")}
export const entries = new Map([${pairs.join(", ")}]);
export const mainModule = ${bundle.mainModule === undefined ? "undefined" : JSON.stringify(bundle.mainModule)};
`;
}

/** A capnp text literal. All input is ASCII without control characters: names are checked, paths and tokens are ours. */
function text(value: string): string {
  if (!/^[\x20-\x7e]*$/.test(value)) throw new Error(`Not printable ASCII, so not fit for a config text: ${JSON.stringify(value)}`);
  return `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}
