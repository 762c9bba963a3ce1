/** Runs the published classes of projects in isolates. */
import type { Log } from "@iterate-platform/service/log";
import type { IsolateBundle, IsolatePool } from "../isolate/client.js";
import { engineCheckpoint, type Batch, type BatchHost, type ExecutionScope } from "../delivery/batch.js";
import type { PublishedClasses } from "../delivery/hosts.js";
import type { Target } from "../delivery/target.js";
import { ItxHost, maxHostCalls, type ItxHostParts } from "../itx/host.js";
import { recordCodeLog } from "../itx/code-log.js";
import type { PublishedCode } from "./published-code.js";

export interface IsolatedHostsParts {
  readonly code: PublishedCode;
  readonly isolates: Pick<IsolatePool, "processBatch">;
  readonly itx: ItxHostParts;
  readonly report: Log;
  readonly newInvocationId: () => string;
}

type FacetTarget = Extract<Target, { kind: "facet" }>;

export class IsolatedHosts implements PublishedClasses {
  readonly #parts: IsolatedHostsParts;

  constructor(parts: IsolatedHostsParts) {
    this.#parts = parts;
  }

  async host(target: FacetTarget, owner: string): Promise<BatchHost | undefined> {
    const pointer = await this.#parts.code.pointer(owner);
    const built = pointer?.modules.find(({ file }) => file === target.module);
    if (pointer === null || !built?.classes.includes(target.className)) return undefined;
    const bundle = this.#parts.code.bundle(owner, pointer);
    return {
      code: `config@${pointer.digest}`,
      isPlatform: false,
      run: (batch, scope) => this.#run({ bundle, module: built.module, className: target.className }, batch, scope),
    };
  }

  #run(what: { bundle: IsolateBundle; module: string; className: string }, batch: Batch, scope: ExecutionScope) {
    const { owner, path, name, events, range, atHead, quarantine, deadlineMs } = batch;
    const record = recordCodeLog(this.#parts.report, {
      owner,
      context: path,
      subscription: name,
      traceparent: scope.traceparent,
    });
    const host = new ItxHost(this.#parts.itx, { scope, delivery: { subscription: name, after: range.after }, record });
    const input = { contextPath: path, name, checkpoint: engineCheckpoint(batch), events, range, atHead };
    return this.#parts.isolates.processBatch(
      {
        ...what,
        invocationId: this.#parts.newInvocationId(),
        contextPath: path,
        callerPath: path,
        deadlineMs,
        maxHostCalls,
        quarantine,
        signal: scope.signal,
        input,
        ...(scope.traceparent === "" ? {} : { traceparent: scope.traceparent }),
      },
      host,
    );
  }
}
