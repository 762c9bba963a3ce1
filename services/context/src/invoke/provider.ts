/**
 * A service that answers roots of its own. It is asked for them again and again, so that a new release of it is known soon; what it
 * said last holds meanwhile.
 */
import {
  CapabilityServiceClient,
  type CapabilityServiceService,
  type Root,
} from "@iterate-platform/proto/iterate/capability/v1/capability";
import type { ResultPart } from "@iterate-platform/proto/iterate/type/v1/invocation";
import type { CapabilityCall } from "@iterate-platform/service/capability";
import { createClient, type ServiceClient } from "@iterate-platform/service/grpc-client";
import type { Log } from "@iterate-platform/service/log";
import type { Trust } from "@iterate-platform/service/trust";
import type { Step } from "iterate/expression";
import { CodedError, isCodedError } from "iterate/lib";
import { rootProblem } from "./root-problem.js";

/** Bound of one question, milliseconds. */
const listDeadlineMs = 5_000;

export interface ProviderParts {
  /** Its service name. */
  readonly name: string;
  readonly url: string;
  readonly trust: Trust;
  readonly log: Log;
  /** Names this service answers itself: a provider's roots of the same name are not heard. */
  readonly isTaken: (root: string) => boolean;
}

export class CapabilityProvider {
  readonly name: string;
  readonly #client: ServiceClient<CapabilityServiceService>;
  readonly #parts: ProviderParts;
  #roots: ReadonlyMap<string, Root> = new Map();
  #isHeard = false;
  #isAnswering = false;

  constructor(parts: ProviderParts) {
    this.name = parts.name;
    this.#parts = parts;
    this.#client = createClient(CapabilityServiceClient, parts.url, { trust: parts.trust, audience: parts.name });
  }

  /** The roots it listed last. */
  get roots(): ReadonlyMap<string, Root> {
    return this.#roots;
  }

  /** Whether it has ever answered. */
  get isHeard(): boolean {
    return this.#isHeard;
  }

  /** Whether it answered when it was asked last. */
  get isAnswering(): boolean {
    return this.#isAnswering;
  }

  /** Asks it for its roots, until `signal` aborts. A failure is logged, and what it listed before stays. */
  async refresh(signal: AbortSignal): Promise<void> {
    const { log, isTaken } = this.#parts;
    try {
      const { roots } = await this.#client.list({}, { deadlineMs: listDeadlineMs, signal });
      const taken = new Map<string, Root>();
      for (const root of roots) {
        const problem = isTaken(root.name) ? "is answered by the context service itself" : rootProblem(root);
        if (problem === null) taken.set(root.name, root);
        else if (!this.#roots.has(root.name)) log.warn("a root is not taken", { service: this.name, root: root.name, problem });
      }
      this.#roots = taken;
      this.#isHeard = true;
      this.#isAnswering = true;
    } catch (error) {
      if (signal.aborted) return;
      this.#isAnswering = false;
      log.warn("a service does not say which roots it answers", { service: this.name, error });
    }
  }

  /**
   * Calls below one of its roots, for the caller of `call`.
   *
   * @throws CodedError UNAVAILABLE naming the service while it is away, and what its method throws.
   */
  async *invoke({ address, callerPath, credentials, signal }: CapabilityCall, steps: readonly Step[]): AsyncGenerator<ResultPart> {
    const request = { context: { ...address }, steps: Buffer.from(JSON.stringify(steps)), callerPath };
    try {
      for await (const { part } of this.#client.invoke(request, { ...credentials, signal })) if (part !== undefined) yield part;
    } catch (error) {
      if (!isCodedError(error) || error.code !== "UNAVAILABLE") throw error;
      throw new CodedError("UNAVAILABLE", `the service ${this.name}, which answers this call, is away: ${error.message}`, {
        data: { ...error.data, service: this.name },
        ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
        cause: error,
      });
    }
  }

  close(): void {
    this.#client.close();
  }
}
