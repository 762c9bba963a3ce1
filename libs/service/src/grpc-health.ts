/** `grpc.health.v1`: whether the server as a whole ("") and each of its services take calls; open to every caller. */
import type { sendUnaryData, ServerUnaryCall, ServerWritableStream } from "@grpc/grpc-js";
import {
  HealthCheckResponse_ServingStatus as ServingStatus,
  type HealthCheckRequest,
  type HealthCheckResponse,
  type HealthListRequest,
  type HealthListResponse,
} from "@iterate-platform/proto/grpc/health/v1/health";
import { codedError } from "iterate/lib";
import { toFailure } from "./status.js";

/** Most Watch streams at a time; probes need one each. */
const maxWatchers = 256;

export class Health {
  readonly #serving = new Map<string, boolean>([["", false]]);
  readonly #watchers = new Set<{ service: string; send: (status: ServingStatus) => void; end: () => void }>();
  #isEnded = false;

  /** Sets the state of one service; of all and the server as a whole when none is named. */
  set(isServing: boolean, service?: string): void {
    for (const name of service === undefined ? [...this.#serving.keys()] : [service]) this.#serving.set(name, isServing);
    for (const watcher of this.#watchers) watcher.send(this.#status(watcher.service));
  }

  /** Ends every Watch, so that they do not hold up a drain. */
  end(): void {
    this.#isEnded = true;
    for (const watcher of this.#watchers) watcher.end();
  }

  /** What `HealthService` is registered with. */
  readonly implementation = {
    check: (call: ServerUnaryCall<HealthCheckRequest, HealthCheckResponse>, callback: sendUnaryData<HealthCheckResponse>): void => {
      const status = this.#status(call.request.service);
      if (status === ServingStatus.SERVICE_UNKNOWN)
        return callback(
          toFailure(codedError("NOT_FOUND", "no service of this name is served here", { service: call.request.service })),
        );
      callback(null, { status });
    },
    list: (_call: ServerUnaryCall<HealthListRequest, HealthListResponse>, callback: sendUnaryData<HealthListResponse>): void => {
      callback(null, {
        statuses: Object.fromEntries([...this.#serving.keys()].map((name) => [name, { status: this.#status(name) }])),
      });
    },
    watch: (call: ServerWritableStream<HealthCheckRequest, HealthCheckResponse>): void => {
      if (this.#watchers.size >= maxWatchers)
        return void call.emit("error", toFailure(codedError("OVERLOADED", `${maxWatchers} health watches are open`)));
      let last: ServingStatus | null = null;
      const send = (status: ServingStatus): void => {
        if (status !== last) call.write({ status });
        last = status;
      };
      const watcher = { service: call.request.service, send, end: () => call.end() };
      send(this.#status(watcher.service));
      if (this.#isEnded) return void call.end();
      this.#watchers.add(watcher);
      call.once("cancelled", () => this.#watchers.delete(watcher));
    },
  };

  #status(service: string): ServingStatus {
    const isServing = this.#serving.get(service);
    if (isServing === undefined) return ServingStatus.SERVICE_UNKNOWN;
    return isServing ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
  }
}
