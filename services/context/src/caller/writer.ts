/**
 * From the authenticated caller of a call to the writer of its appends. An execution token decides when there is one; else a
 * principal means a person came through the edge; else a service of the platform writes for itself.
 */
import type { Caller } from "@iterate-platform/service/caller";
import type { Writer } from "./contract.js";

/** Makes the names of new chains. */
export type NewChain = (originKind: string) => string;

export function writerOf(caller: Caller, newChain: NewChain): Writer {
  const { execution, principal } = caller;
  if (execution !== undefined) {
    return {
      kind: "code",
      origin: execution.context,
      cause: execution.cause,
      principal: execution.principal ?? null,
      isPlatform: execution.code.startsWith("builtin:"),
      owner: execution.owner,
      lease: { partition: execution.partition, epoch: execution.epoch },
    };
  }
  if (principal !== undefined) {
    return {
      kind: "person",
      origin: "/",
      cause: { chain: newChain("person"), depth: 0 },
      principal,
      isPlatform: false,
      owner: null,
      lease: null,
    };
  }
  return {
    kind: "service",
    origin: null,
    cause: { chain: newChain("service"), depth: 0 },
    principal: null,
    isPlatform: true,
    owner: null,
    lease: null,
  };
}

export interface ChainSources {
  /** Wall clock in milliseconds since 1970. */
  readonly nowMs: () => number;
  /** From 0 to 1, unpredictable. */
  readonly random: () => number;
}

/** Names chains `<ISO time> with <origin kind> ~<nonce>`: no two of one process are equal, nor of two processes but by a rare chance. */
export function chainNames({ nowMs, random }: ChainSources): NewChain {
  const process = Math.floor(random() * 2 ** 52).toString(36);
  let lastMs = NaN;
  let time = "";
  let count = 0;
  return (originKind) => {
    const now = nowMs();
    if (now !== lastMs) {
      lastMs = now;
      time = new Date(now).toISOString();
    }
    count += 1;
    return `${time} with ${originKind} ~${process}${count}`;
  };
}
