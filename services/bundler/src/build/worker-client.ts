/** The build worker as another process: sources go out in pieces, modules come back in pieces, no faster than either side reads. */
import { BundleModuleKind, BuildWorkerServiceClient, type RunBuildRequest } from "@iterate-platform/proto/iterate/bundler/v1/build";
import { createClient } from "@iterate-platform/service/grpc-client";
import { fromStatus } from "@iterate-platform/service/status";
import type { Trust } from "@iterate-platform/service/trust";
import { codedError } from "iterate/lib";
import type { BuildWorker } from "./builder.js";
import type { BuildLimits, BuildOutput, BuiltModule, ModuleKind, SourceFile } from "./contract.js";

export const pieceBytes = 1024 * 1024;

/** Bound of one build in its worker, waiting for its turn excluded. */
const jobDeadlineMs = 60_000;

/** Bound of the call: the job, its turn and the transfer. */
const callDeadlineMs = 120_000;

const kinds: ReadonlyMap<BundleModuleKind, ModuleKind> = new Map<BundleModuleKind, ModuleKind>([
  [BundleModuleKind.BUNDLE_MODULE_KIND_ES_MODULE, "es-module"],
  [BundleModuleKind.BUNDLE_MODULE_KIND_JSON, "json"],
  [BundleModuleKind.BUNDLE_MODULE_KIND_TEXT, "text"],
  [BundleModuleKind.BUNDLE_MODULE_KIND_DATA, "data"],
  [BundleModuleKind.BUNDLE_MODULE_KIND_WASM, "wasm"],
]);

const wireKinds = new Map([...kinds].map(([wire, kind]) => [kind, wire]));

export const wireKind = (kind: ModuleKind): BundleModuleKind => wireKinds.get(kind)!;

/** The pieces of a file or module; an empty one has one empty piece. */
export function* pieces(data: Uint8Array): Generator<{ data: Buffer; last: boolean }> {
  const whole = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  let at = 0;
  do {
    const piece = whole.subarray(at, at + pieceBytes);
    at += piece.byteLength;
    yield { data: piece, last: at >= whole.byteLength };
  } while (at < whole.byteLength);
}

export interface WorkerClient extends BuildWorker {
  close(): void;
}

export function connectBuildWorker(url: string, trust: Trust, limits: BuildLimits): WorkerClient {
  const client = createClient(BuildWorkerServiceClient, url, { trust, audience: "build-worker" });

  const send = async (
    job: Parameters<BuildWorker["build"]>[0],
    write: (request: RunBuildRequest) => Promise<void>,
  ): Promise<void> => {
    await write({
      step: {
        $case: "job",
        value: { entries: [...job.entries], fileCount: job.files.length, deadlineMs: jobDeadlineMs, toolchain: job.toolchain },
      },
    });
    for (const { path, symlink, data } of job.files) {
      for (const piece of pieces(data)) await write({ step: { $case: "chunk", value: { path, symlink, ...piece } } });
    }
  };

  return {
    close: () => client.close(),
    build: async (job, signal): Promise<BuildOutput> => {
      const call = client.runBuild({ signal, deadlineMs: callDeadlineMs });
      const sent = send(job, (request) => call.send(request)).then(() => call.end());
      sent.catch(() => call.cancel());
      const parts = new Map<string, { kind: ModuleKind; pieces: Buffer[] }>();
      let bytes = 0;
      for await (const { step } of call.responses) {
        if (step?.$case === "chunk") {
          const { name, kind, data } = step.value;
          bytes += data.byteLength;
          if (bytes > limits.maxOutputBytes)
            throw codedError("INTERNAL", `the build worker answered more than ${limits.maxOutputBytes} bytes`);
          const part = parts.get(name) ?? { kind: kinds.get(kind) ?? "data", pieces: [] };
          part.pieces.push(data);
          parts.set(name, part);
        } else if (step?.$case === "end") {
          if (step.value.error !== undefined) throw fromStatus(step.value.error, "build-worker");
          const modules = [...parts].map(([name, part]): BuiltModule => ({
            name,
            kind: part.kind,
            data: Buffer.concat(part.pieces),
          }));
          return { entries: step.value.entries, modules };
        }
      }
      throw codedError("UNAVAILABLE", "the build worker ended before its answer; build again");
    },
  };
}

/** Collects the files of a job as they come; refuses more than a job may have as soon as it is known. */
export class FileCollector {
  readonly #limits: BuildLimits;
  readonly #files: SourceFile[] = [];
  #open: { path: string; symlink: boolean; pieces: Buffer[] } | undefined;
  #bytes = 0;

  constructor(limits: BuildLimits) {
    this.#limits = limits;
  }

  get files(): readonly SourceFile[] {
    return this.#files;
  }

  /** Throws INVALID_INPUT when the pieces are more, longer or in another order than they may be. */
  take({ path, symlink, data, last }: { path: string; symlink: boolean; data: Buffer; last: boolean }): void {
    const open = (this.#open ??= { path, symlink, pieces: [] });
    this.#bytes += data.byteLength;
    if (open.path !== path || open.symlink !== symlink)
      throw codedError("INVALID_INPUT", `the file ${JSON.stringify(open.path.slice(0, 200))} has no last piece`);
    if (Buffer.byteLength(path) > this.#limits.maxPathBytes)
      throw codedError("INVALID_INPUT", `a path is longer than ${this.#limits.maxPathBytes} bytes`);
    if (this.#bytes > this.#limits.maxSourceBytes)
      throw codedError("INVALID_INPUT", `the files of a job have more than ${this.#limits.maxSourceBytes} bytes`);
    if (this.#files.length >= this.#limits.maxFiles)
      throw codedError("INVALID_INPUT", `a job has more than ${this.#limits.maxFiles} files`);
    open.pieces.push(data);
    if (!last) return;
    this.#files.push({ path, symlink, data: open.pieces.length === 1 ? open.pieces[0]! : Buffer.concat(open.pieces) });
    this.#open = undefined;
  }
}
