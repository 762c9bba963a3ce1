/** The edge of ListChildren. */
import type { ContextServiceService } from "@iterate-platform/proto/iterate/context/v1/context";
import type { HandlerOf, MethodRule } from "@iterate-platform/service/grpc-server";
import { assertContextPath, codedError } from "iterate/lib";
import { listChildren } from "../births/children.js";
import type { ChildStore } from "../births/contract.js";
import { addressOf, countOf } from "./input.js";

type Methods = Pick<ContextServiceService, "listChildren">;

export const childrenRules: Record<keyof Methods, MethodRule> = {
  listChildren: { services: ["ingress", "runner", "bundler"], execution: "allowed", person: "allowed" },
};

export const childLimits = { page: 1_000, defaultPage: 100 } as const;

export function childrenHandlers(stores: readonly ChildStore[]): { readonly [Name in keyof Methods]: HandlerOf<Methods[Name]> } {
  return {
    listChildren: async ({ context, after, limit }, { caller }) => {
      const parent = addressOf(context, caller);
      if (after !== "") {
        assertContextPath(after);
        const prefix = parent.path === "/" ? "/" : `${parent.path}/`;
        if (!after.startsWith(prefix)) throw codedError("INVALID_INPUT", "after is not what a page answered", { field: "after" });
      }
      const count = countOf("limit", limit, childLimits.page, childLimits.defaultPage);
      const { children, next } = await listChildren(stores, parent, after, count);
      return { children: children.map(({ path, createdAtUs }) => ({ path, createdAtUs: BigInt(createdAtUs) })), next };
    },
  };
}
