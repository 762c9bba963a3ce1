/** What requests of the read side may say: every bound is checked here, before anything is asked of the log. */
import type { ContextAddress as AddressMessage } from "@iterate-platform/proto/iterate/type/v1/context";
import { assertContextPath, codedError } from "iterate/lib";
import type { Caller } from "@iterate-platform/service/caller";
import type { ContextAddress } from "../log/contract.js";
import { readLimits } from "../log/limits.js";

const ownerPattern = /^(global|prj_[0-9a-hjkmnp-tv-z]{26})$/;

/**
 * The context a request names, if `caller` may look at it: code sees the contexts of its own project alone.
 *
 * @throws CodedError INVALID_CONTEXT, FORBIDDEN.
 */
export function addressOf(message: AddressMessage | undefined, caller: Caller): ContextAddress {
  const address = plainAddress(message?.owner ?? "", message?.path ?? "");
  const { execution } = caller;
  if (execution !== undefined && execution.owner !== address.owner) {
    throw codedError("FORBIDDEN", `code of ${execution.owner} may not read the contexts of ${address.owner}`, {
      owner: address.owner,
    });
  }
  return address;
}

/** @throws CodedError INVALID_CONTEXT. */
export function plainAddress(owner: string, path: string): ContextAddress {
  if (!ownerPattern.test(owner))
    throw codedError("INVALID_CONTEXT", `owner ${JSON.stringify(owner.slice(0, 64))} is neither a project id nor "global"`);
  assertContextPath(path);
  return { owner, path };
}

/** An offset after which to look: 0 to 2^53 − 1. */
export function afterOffsetOf(offset: bigint): number {
  return offsetOf("after_offset", offset);
}

/** An offset: 0 to 2^53 − 1. */
export function offsetOf(field: string, offset: bigint): number {
  if (offset < 0n || offset > BigInt(Number.MAX_SAFE_INTEGER))
    throw codedError("INVALID_INPUT", `${field} is ${offset}; it must be from 0 to 2^53 - 1`);
  return Number(offset);
}

/** A count from 1 to `max`; 0 stands for `standard`. */
export function countOf(field: string, count: number, max: number, standard: number): number {
  if (count === 0) return standard;
  if (count < 0 || count > max)
    throw codedError("INVALID_INPUT", `${field} is ${count}; it must be from 1 to ${max}, or 0 for ${standard}`, { max });
  return count;
}

/** Names of event types, `min` to 100 of them. */
export function typesOf(types: readonly string[], min: 0 | 1): readonly string[] {
  if (types.length < min || types.length > readLimits.types)
    throw codedError("INVALID_INPUT", `types holds ${types.length} names; it must hold ${min} to ${readLimits.types}`);
  for (const type of types) {
    const bytes = Buffer.byteLength(type);
    if (bytes === 0 || bytes > readLimits.typeBytes || type.includes("\0"))
      throw codedError(
        "INVALID_INPUT",
        `types holds a name of ${bytes} bytes; a type has 1 to ${readLimits.typeBytes}, none of them NUL`,
      );
  }
  return types;
}
