/** Runs the platform's own processors in this process, by the same engine that runs project code in an isolate. */
import type { Log } from "@iterate-platform/service/log";
import {
  ProcessorEngine,
  type AnyProcessorContract,
  type ProcessorState,
  type ProcessorCheckpoint,
  type StreamProcessor,
} from "iterate/stream/processor";
import { engineCheckpoint, type Batch, type BatchHost, type ExecutionScope } from "../delivery/batch.js";
import type { ContextKey } from "../delivery/contract.js";
import type { NativeProcessors } from "../delivery/hosts.js";
import { InvocationWriter } from "../itx/writer.js";
import type { ContextLog } from "../log/contract.js";

/** What a native processor acts through while one batch runs. */
export interface NativeEnvironment extends ContextKey {
  readonly scope: ExecutionScope;
  /** Writes to any context of the owner, as the platform. */
  readonly writer: InvocationWriter;
}

export interface NativeProcessor {
  /** Whether the processor may be hosted in this context. */
  isHostedIn(context: ContextKey): boolean;
  /** Milliseconds until its checkpoint. */
  readonly checkpointMs: number;
  create(environment: NativeEnvironment): StreamProcessor;
}

export class NativeHosts implements NativeProcessors {
  readonly #processors: ReadonlyMap<string, NativeProcessor>;
  readonly #log: ContextLog;
  readonly #report: Log;

  constructor(processors: Readonly<Record<string, NativeProcessor>>, log: ContextLog, report: Log) {
    this.#processors = new Map(Object.entries(processors));
    this.#log = log;
    this.#report = report;
  }

  host(name: string, context: ContextKey): BatchHost | undefined {
    const processor = this.#processors.get(name);
    if (processor === undefined || !processor.isHostedIn(context)) return undefined;
    return {
      code: `builtin:${name}`,
      isPlatform: true,
      checkpointMs: processor.checkpointMs,
      run: (batch, scope) => this.#run(processor, batch, scope),
    };
  }

  #run(native: NativeProcessor, batch: Batch, scope: ExecutionScope) {
    const { owner, path, name } = batch;
    const writer = new InvocationWriter({ log: this.#log, scope, delivery: { subscription: name, after: batch.range.after } });
    const engine = new ProcessorEngine(native.create({ owner, path, scope, writer }), {
      stream: { append: (events) => writer.append(path, events), readEvents: (args) => writer.readEvents(path, args) },
      // The caller holds the checkpoint and commits the one that is answered.
      storage: {
        read: async () => engineCheckpoint(batch) as ProcessorCheckpoint<ProcessorState<AnyProcessorContract>> | null,
        write: async () => undefined,
      },
      report: ({ kind, slug, offset, type, error }) =>
        this.#report.warn("processor problem", { owner, context: path, subscription: name, kind, slug, offset, type, error }),
    });
    return engine.processBatch(batch);
  }
}
