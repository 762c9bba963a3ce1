/** FeedService: decode, authorize, call, encode. */
import type { FeedServiceService } from "@iterate-platform/proto/iterate/context/v1/feed";
import { partitionCount } from "@iterate-platform/service/ids";
import type { Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import { codedError } from "iterate/lib";
import type { LogStore } from "../log/log-store.js";
import { listCommits } from "../publish/feed.js";
import { countOf, readLimits } from "./input.js";

export const feedRules: MethodRules<FeedServiceService> = {
  listCommits: { services: ["runner"], execution: "refused", person: "refused" },
};

export interface FeedParts {
  /** The store of a partition. */
  readonly storeOf: (partition: number) => LogStore;
}

export function feedHandlers({ storeOf }: FeedParts): Handlers<FeedServiceService> {
  return {
    listCommits: async ({ partition, after, limit }) => {
      if (partition < 0 || partition >= partitionCount)
        throw codedError("INVALID_INPUT", `partition is ${partition}; it must be from 0 to ${partitionCount - 1}`);
      const { commits, next, isAtHead } = await listCommits(
        storeOf(partition),
        partition,
        after,
        countOf("limit", limit, readLimits.commits, readLimits.defaultCommits),
      );
      return { commits: [...commits], next, atHead: isAtHead };
    },
  };
}
