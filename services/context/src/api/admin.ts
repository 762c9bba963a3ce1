/** AdminService: what an operator tells the log. */
import type { AdminServiceService } from "@iterate-platform/proto/iterate/context/v1/admin";
import type { Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import type { Log } from "@iterate-platform/service/log";

export const adminRules: MethodRules<AdminServiceService> = {
  declareLogRestored: { services: ["ingress"], execution: "refused", person: "required" },
};

export interface AdminParts {
  readonly shards: readonly { raiseGeneration(): Promise<number> }[];
  readonly log: Log;
}

export function adminHandlers({ shards, log }: AdminParts): Handlers<AdminServiceService> {
  return {
    declareLogRestored: async (_, { caller }) => {
      // One after the other: what failed half-way is declared again, and a shard that is raised twice loses offsets alone.
      const generations: number[] = [];
      for (const shard of shards) generations.push(await shard.raiseGeneration());
      log.warn("the log is declared restored", { principal: caller.principal, generations });
      return { generations };
    },
  };
}
