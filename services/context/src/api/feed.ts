/** FeedService: decode, authorize, call, encode. */
import type { FeedServiceService, SubscriptionFloor } from "@iterate-platform/proto/iterate/context/v1/feed";
import { partitionCount, partitionOf } from "@iterate-platform/service/ids";
import type { Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import type { LogStore } from "../log/log-store.js";
import { listCommits } from "../publish/feed.js";
import type { FloorStore, ReportedFloor } from "../retention/contract.js";
import { retentionLimits } from "../retention/limits.js";
import { countOf, plainAddress } from "./input.js";
import { readLimits } from "../log/limits.js";

export const feedRules: MethodRules<FeedServiceService> = {
  listCommits: { services: ["runner"], execution: "refused", person: "refused" },
  reportFloors: { services: ["runner"], execution: "refused", person: "refused" },
};

export interface FeedParts {
  /** The store of a partition. */
  readonly storeOf: (partition: number) => LogStore;
  readonly floorsOf: (partition: number) => FloorStore;
}

export function feedHandlers({ storeOf, floorsOf }: FeedParts): Handlers<FeedServiceService> {
  return {
    listCommits: async ({ partition, after, limit }) => {
      checkPartition(partition);
      const { commits, next, isAtHead } = await listCommits(
        storeOf(partition),
        partition,
        after,
        countOf("limit", limit, readLimits.commits, readLimits.defaultCommits),
      );
      return { commits: [...commits], next, atHead: isAtHead };
    },
    reportFloors: async ({ partition, floors }) => {
      checkPartition(partition);
      if (floors.length > retentionLimits.floors)
        throw codedError("INVALID_INPUT", `floors holds ${floors.length} entries; send at most ${retentionLimits.floors}`, {
          limit: retentionLimits.floors,
        });
      const reported = floors.map((floor) => reportedFloor(floor, partition));
      if (reported.length > 0) await floorsOf(partition).reportFloors(reported);
      return {};
    },
  };
}

function checkPartition(partition: number): void {
  if (partition < 0 || partition >= partitionCount)
    throw codedError("INVALID_INPUT", `partition is ${partition}; it must be from 0 to ${partitionCount - 1}`);
}

function reportedFloor(message: SubscriptionFloor, partition: number): ReportedFloor {
  const { owner, path } = plainAddress(message.context?.owner ?? "", message.context?.path ?? "");
  if (partitionOf(owner, path) !== partition)
    throw codedError("INVALID_INPUT", `${owner}${path} is not in partition ${partition}`, { partition });
  if (!itx.subscriptionName.safeParse(message.name).success)
    throw codedError("INVALID_INPUT", `${JSON.stringify(message.name.slice(0, 128))} is no name of a subscription`, {
      field: "name",
    });
  return {
    owner,
    path,
    name: message.name,
    configuredAt: offsetOf("configured_at_offset", message.configuredAtOffset),
    resumedAt: offsetOf("resumed_at_offset", message.resumedAtOffset),
    floor: offsetOf("floor_offset", message.floorOffset),
  };
}

function offsetOf(field: string, offset: bigint): number {
  if (offset < 0n || offset > BigInt(Number.MAX_SAFE_INTEGER))
    throw codedError("INVALID_INPUT", `${field} is ${offset}; it must be from 0 to 2^53 - 1`, { field });
  return Number(offset);
}
