/** The builtin roots of this service. A concern that answers one adds it here, or to the registry where the service is composed. */
import type { Kv } from "../kv/kv.js";
import type { Heads } from "../log/confirm.js";
import type { ContextAddress } from "../log/contract.js";
import type { ScheduleStore } from "../schedules/contract.js";
import type { ContextRoot } from "./contract.js";
import { abortRoot } from "./roots/abort.js";
import { fetchRoutesRoot } from "./roots/fetch-routes.js";
import { identityRoots } from "./roots/identity.js";
import { kvRoot } from "./roots/kv.js";
import { logRoots } from "./roots/log.js";
import { ruleRoots } from "./roots/rules.js";
import { schedulesRoot } from "./roots/schedules.js";
import { subscriptionsRoot } from "./roots/subscriptions.js";
import type { Resolver } from "./resolver.js";

export interface BuiltinParts {
  readonly heads: Heads;
  /** Where the pages of a project answer, by its slug. */
  readonly urlOf: (slug: string) => string;
  readonly resolver: Resolver;
  readonly kv: Kv;
  /** Due rows of a partition's database. */
  readonly schedulesOf: (partition: number) => ScheduleStore;
  /** Drops what this process holds of a context. */
  readonly forget: (address: ContextAddress) => void;
}

export function builtinRoots({ heads, urlOf, resolver, kv, schedulesOf, forget }: BuiltinParts): ContextRoot[] {
  return [
    ...identityRoots({ heads, urlOf }),
    ...logRoots,
    abortRoot(forget),
    subscriptionsRoot(heads),
    ...ruleRoots(heads, resolver),
    kvRoot(kv),
    schedulesRoot(heads, schedulesOf),
    fetchRoutesRoot(heads),
  ];
}
