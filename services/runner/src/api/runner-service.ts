/** The edge of RunnerService: decodes, asks, encodes. */
import {
  DeliveryStatus,
  type Delivery,
  type PartitionLease,
  type RunnerServiceService,
} from "@iterate-platform/proto/iterate/runner/v1/runner";
import type { ContextAddress } from "@iterate-platform/proto/iterate/type/v1/context";
import type { Caller } from "@iterate-platform/service/caller";
import type { Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import { partitionOf } from "@iterate-platform/service/ids";
import type { Queryable } from "@iterate-platform/service/postgres";
import { assertContextPath, codedError } from "iterate/lib";
import type { ContextKey, DeliveryStatus as RowStatus } from "../delivery/contract.js";
import type { Snapshots } from "../delivery/snapshots.js";
import {
  explainedDeliveries,
  leaseOf,
  listDeliveries,
  type ExplainedColumns,
  type LeaseColumns,
  type ListedColumns,
} from "../delivery/snapshots.sql.js";
import { takenRuns, type TakenColumns } from "../runs/run.sql.js";

type Definition = typeof RunnerServiceService;

const callers = { services: ["ingress", "context"], execution: "allowed" } as const;

export const runnerServiceRules: MethodRules<Definition> = {
  getSnapshot: callers,
  waitUntilProcessed: callers,
  listDeliveries: callers,
  explainContext: { services: ["context"], execution: "refused" },
};

const maxWaitMs = 60_000;
const maxPage = 200;
const defaultPage = 50;
const maxAsked = 1_000;

const statuses: Readonly<Record<RowStatus, DeliveryStatus>> = {
  active: DeliveryStatus.DELIVERY_STATUS_ACTIVE,
  retrying: DeliveryStatus.DELIVERY_STATUS_RETRYING,
  halted: DeliveryStatus.DELIVERY_STATUS_HALTED,
  dangling: DeliveryStatus.DELIVERY_STATUS_DANGLING,
  removed: DeliveryStatus.DELIVERY_STATUS_UNSPECIFIED,
};

export function runnerServiceHandlers(db: Queryable, snapshots: Snapshots): Handlers<Definition> {
  return {
    async getSnapshot({ context, name }, { caller }) {
      const row = await snapshots.row(contextOf(context, caller), name);
      return {
        offset: BigInt(row.cursor),
        state: row.state === null ? undefined : Buffer.from(row.state),
        version: row.version ?? "",
      };
    },

    async waitUntilProcessed({ context, name, offset, timeoutMs }, { caller, signal }) {
      if (timeoutMs < 0 || timeoutMs > maxWaitMs)
        throw codedError("INVALID_INPUT", `timeout_ms is ${timeoutMs}, not from 0 to ${maxWaitMs}`, { field: "timeout_ms" });
      const reached = await snapshots.waitUntilProcessed(
        contextOf(context, caller),
        name,
        offsetOf(offset),
        timeoutMs === 0 ? undefined : timeoutMs,
        signal,
      );
      return { offset: BigInt(reached) };
    },

    async listDeliveries({ owner, path, pageToken, pageSize }, { caller }) {
      if (owner === "") throw codedError("INVALID_INPUT", "owner is empty", { field: "owner" });
      assertOwn(owner, caller);
      if (pageSize < 0 || pageSize > maxPage)
        throw codedError("INVALID_INPUT", `page_size is ${pageSize}, not from 0 to ${maxPage}`, { field: "page_size" });
      const size = pageSize === 0 ? defaultPage : pageSize;
      const { rows } = await db.query<ListedColumns>(
        listDeliveries(owner, path === "" ? null : path, placeOf(pageToken), size + 1),
      );
      const page = rows.slice(0, size);
      const last = page.at(-1);
      return {
        deliveries: page.map((row) => delivery(owner, row)),
        nextPageToken: rows.length > size && last !== undefined ? tokenOf(last) : "",
      };
    },

    async explainContext({ context, names, runOffsets }, { caller }) {
      const key = contextOf(context, caller);
      if (names.length > maxAsked || runOffsets.length > maxAsked)
        throw codedError(
          "INVALID_INPUT",
          `${names.length} names and ${runOffsets.length} runs are asked for; at most ${maxAsked} of each`,
        );
      const partition = partitionOf(key.owner, key.path);
      const [leases, deliveries, runs] = await Promise.all([
        db.query<LeaseColumns>(leaseOf(partition)),
        names.length === 0 ? { rows: [] } : db.query<ExplainedColumns>(explainedDeliveries(key, names)),
        runOffsets.length === 0 ? { rows: [] } : db.query<TakenColumns>(takenRuns(key, runOffsets)),
      ]);
      return {
        lease: leaseMessage(partition, leases.rows[0]),
        deliveries: deliveries.rows.map((row) => ({
          delivery: delivery(key.owner, row),
          configuredAtOffset: BigInt(row.configured_at),
          epoch: BigInt(row.epoch),
          suspect: row.suspect,
        })),
        runs: runs.rows.map((row) => ({
          requestOffset: BigInt(row.request_offset),
          epoch: BigInt(row.epoch),
          dueAtUs: BigInt(row.due_at.getTime()) * 1_000n,
        })),
      };
    },
  };
}

function leaseMessage(partition: number, row: LeaseColumns | undefined): PartitionLease {
  const expiresInMs = BigInt(row?.expires_in_ms ?? -1);
  return { partition, pod: row?.pod ?? "", epoch: BigInt(row?.epoch ?? 0), expiresInMs };
}

function delivery(owner: string, row: ListedColumns): Delivery {
  return {
    context: { owner, path: row.path },
    name: row.name,
    status: statuses[row.status],
    cursor: BigInt(row.cursor),
    attempts: row.attempt,
    dueAtUs: row.due_at === null ? 0n : BigInt(row.due_at.getTime()) * 1_000n,
    errorCode: row.error_code ?? "",
    errorMessage: row.error_message ?? "",
  };
}

/** Code is told of its own project alone, whichever service asks for it. */
function assertOwn(owner: string, { execution }: Caller): void {
  if (execution !== undefined && execution.owner !== owner)
    throw codedError("FORBIDDEN", `code of ${execution.owner} may not see the processors of ${owner}`, { owner });
}

function contextOf(address: ContextAddress | undefined, caller: Caller): ContextKey {
  if (address === undefined || address.owner === "")
    throw codedError("INVALID_INPUT", "context names no owner", { field: "context" });
  assertOwn(address.owner, caller);
  assertContextPath(address.path);
  return { owner: address.owner, path: address.path };
}

function offsetOf(offset: bigint): number {
  if (offset < 0n || offset > BigInt(Number.MAX_SAFE_INTEGER))
    throw codedError("INVALID_INPUT", `offset ${offset} is not from 0 to 2^53 - 1`, { field: "offset" });
  return Number(offset);
}

function tokenOf({ path, name }: { readonly path: string; readonly name: string }): string {
  return Buffer.from(JSON.stringify([path, name])).toString("base64url");
}

function placeOf(token: string): { path: string; name: string } {
  if (token === "") return { path: "", name: "" };
  try {
    const [path, name] = JSON.parse(Buffer.from(token, "base64url").toString()) as unknown[];
    if (typeof path === "string" && typeof name === "string") return { path, name };
  } catch {
    // Refused below.
  }
  throw codedError("INVALID_INPUT", "page_token is not one that a page answered", { field: "page_token" });
}
