/** What a project has published: the build its pointer names, as something isolates load. Read anew for every use. */
import { BuildServiceClient, BundleModuleKind } from "@iterate-platform/proto/iterate/bundler/v1/build";
import type { ConfigPointer } from "@iterate-platform/proto/iterate/context/v1/context";
import { createClient } from "@iterate-platform/service/grpc-client";
import type { Trust } from "@iterate-platform/service/trust";
import { codedError } from "iterate/lib";
import type { BundleModule, ModuleKind } from "../isolate/bundle.js";
import type { IsolateBundle } from "../isolate/client.js";
import type { ContextLog } from "../log/contract.js";

export type BuildClient = ReturnType<typeof createBuildClient>;

export function createBuildClient(url: string, trust: Trust) {
  return createClient(BuildServiceClient, url, { trust, audience: "bundler" });
}

const kinds: Readonly<Partial<Record<BundleModuleKind, ModuleKind>>> = {
  [BundleModuleKind.BUNDLE_MODULE_KIND_ES_MODULE]: "esModule",
  [BundleModuleKind.BUNDLE_MODULE_KIND_JSON]: "json",
  [BundleModuleKind.BUNDLE_MODULE_KIND_TEXT]: "text",
  [BundleModuleKind.BUNDLE_MODULE_KIND_DATA]: "data",
  [BundleModuleKind.BUNDLE_MODULE_KIND_WASM]: "wasm",
};

export class PublishedCode {
  readonly #log: ContextLog;
  readonly #builds: Pick<BuildClient, "getBundle">;

  constructor(log: ContextLog, builds: Pick<BuildClient, "getBundle">) {
    this.#log = log;
    this.#builds = builds;
  }

  /** The pointer of the project's root; null when nothing is published. */
  async pointer(owner: string, signal?: AbortSignal): Promise<ConfigPointer | null> {
    return (await this.#log.describe({ owner, path: "/" }, signal === undefined ? {} : { signal })).config;
  }

  /** The build as isolates load it; its modules are fetched only when an isolate pod lacks them. */
  bundle(owner: string, { digest, mainModule, modules }: Pick<ConfigPointer, "digest" | "mainModule" | "modules">): IsolateBundle {
    return {
      owner,
      digest,
      ...(mainModule === "" ? {} : { mainModule }),
      entryModules: [...new Set(modules.map(({ module }) => module))],
      modules: () => this.#modules(owner, digest),
    };
  }

  /** @throws NOT_FOUND when the build is gone; UNAVAILABLE. */
  async *#modules(owner: string, digest: string): AsyncGenerator<BundleModule, void> {
    let open: { name: string; kind: ModuleKind; parts: Uint8Array[] } | undefined;
    for await (const { step } of this.#builds.getBundle({ owner, digest })) {
      if (step?.$case !== "chunk") continue;
      const { name, kind, data } = step.value;
      if (open !== undefined && open.name !== name) yield closed(open);
      if (open?.name === name) open.parts.push(data);
      else open = { name, kind: kindOf(name, kind), parts: [data] };
    }
    if (open !== undefined) yield closed(open);
  }
}

function closed({ name, kind, parts }: { name: string; kind: ModuleKind; parts: readonly Uint8Array[] }): BundleModule {
  return { name, kind, data: Buffer.concat(parts) };
}

function kindOf(name: string, wire: BundleModuleKind): ModuleKind {
  const kind = kinds[wire];
  if (kind === undefined) throw codedError("INTERNAL", `the bundler sent the module ${name} of the unknown kind ${wire}`);
  return kind;
}
