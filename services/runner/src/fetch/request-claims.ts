/** Claims for requests. A request starts a chain of its own and is bound to the current owner epoch of the root's partition. */
import { partitionOf } from "@iterate-platform/service/ids";
import type { Queryable } from "@iterate-platform/service/postgres";
import type { ExecutionClaims } from "@iterate-platform/service/trust";
import { leaseEpoch } from "../lease/lease.sql.js";
import type { RequestClaims } from "./contract.js";

export interface RequestClaimsParts {
  readonly db: Queryable;
  readonly mint: (claims: ExecutionClaims) => Promise<string>;
  readonly nowMs: () => number;
  readonly random: () => number;
  /** Longest life of a request, milliseconds. */
  readonly maxMs: number;
}

const graceS = 60;

export class LeaseBoundClaims implements RequestClaims {
  readonly #parts: RequestClaimsParts;

  constructor(parts: RequestClaimsParts) {
    this.#parts = parts;
  }

  async claims(owner: string, code: string, principal: string | undefined): Promise<ExecutionClaims> {
    const { db, nowMs, random, maxMs } = this.#parts;
    const partition = partitionOf(owner, "/");
    const { rows } = await db.query<{ epoch: string }>(leaseEpoch(partition));
    const chain = `${new Date(nowMs()).toISOString()} with request ~${Math.floor(random() * 2 ** 52).toString(36)}`;
    return {
      owner,
      context: "/",
      code,
      partition,
      epoch: Number(rows[0]?.epoch ?? 0),
      cause: { chain, depth: 0 },
      ...(principal === undefined ? {} : { principal }),
      scope: [],
      exp: Math.floor((nowMs() + maxMs) / 1_000) + graceS,
    };
  }

  mint(claims: ExecutionClaims): Promise<string> {
    return this.#parts.mint(claims);
  }
}
