/** The runner's half of an explanation, over gRPC: bounded, and never in the way of the other half. */
import {
  DeliveryStatus,
  RunnerServiceClient,
  type ExplainContextResponse,
  type ExplainedDelivery,
  type RunnerServiceService,
} from "@iterate-platform/proto/iterate/runner/v1/runner";
import { createClient, type ServiceClient } from "@iterate-platform/service/grpc-client";
import type { Trust } from "@iterate-platform/service/trust";
import type { DeliveryFacts, RunnerHalf, RunnerKnowledge } from "./contract.js";

/** How long an explanation waits for it. */
export const askMs = 2_000;

const statuses: Readonly<Partial<Record<DeliveryStatus, DeliveryFacts["status"]>>> = {
  [DeliveryStatus.DELIVERY_STATUS_RETRYING]: "retrying",
  [DeliveryStatus.DELIVERY_STATUS_HALTED]: "halted",
  [DeliveryStatus.DELIVERY_STATUS_DANGLING]: "dangling",
};

export class GrpcRunnerKnowledge implements RunnerKnowledge {
  readonly #client: ServiceClient<RunnerServiceService>;
  readonly #onFailure: (error: unknown) => void;

  /** @param onFailure hears why it did not answer. */
  constructor(url: string, trust: Trust, onFailure: (error: unknown) => void) {
    this.#client = createClient(RunnerServiceClient, url, { trust, audience: "runner" });
    this.#onFailure = onFailure;
  }

  async ask(
    { owner, path }: { readonly owner: string; readonly path: string },
    names: readonly string[],
    runOffsets: readonly number[],
    signal: AbortSignal,
  ): Promise<RunnerHalf | null> {
    const request = { context: { owner, path }, names: [...names], runOffsets: runOffsets.map(BigInt) };
    try {
      return halfOf(await this.#client.explainContext(request, { signal, deadlineMs: askMs }));
    } catch (error) {
      this.#onFailure(error);
      return null;
    }
  }

  close(): void {
    this.#client.close();
  }
}

/** Stands in where no runner is deployed. */
export const noRunner: RunnerKnowledge = { ask: () => Promise.resolve(null) };

function halfOf({ lease, deliveries, runs }: ExplainContextResponse): RunnerHalf {
  const isHeld = lease !== undefined && lease.pod !== "" && lease.expiresInMs > 0n;
  return {
    lease: isHeld ? { pod: lease.pod, epoch: Number(lease.epoch) } : null,
    deliveries: deliveries.map(deliveryOf),
    runs: runs.map(({ requestOffset, epoch, dueAtUs }) => ({
      requestOffset: Number(requestOffset),
      epoch: Number(epoch),
      dueAtMs: msOf(dueAtUs),
    })),
  };
}

function deliveryOf({ delivery, configuredAtOffset, suspect }: ExplainedDelivery): DeliveryFacts {
  const { name = "", status, cursor = 0n, attempts = 0, dueAtUs = 0n, errorCode = "", errorMessage = "" } = delivery ?? {};
  return {
    name,
    status: (status === undefined ? undefined : statuses[status]) ?? "active",
    configuredAtOffset: Number(configuredAtOffset),
    cursor: Number(cursor),
    attempts,
    dueAtMs: dueAtUs === 0n ? null : msOf(dueAtUs),
    error: errorCode === "" ? null : { code: errorCode, message: errorMessage },
    isSuspect: suspect,
  };
}

function msOf(us: bigint): number {
  return Number(us / 1_000n);
}
