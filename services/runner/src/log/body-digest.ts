/** A digest of what an event says, the same for equal bodies however their objects are ordered. */
import { hash } from "node:crypto";
import type { EventInput } from "iterate/stream/processor";

/** SHA-256 over type, payload and metadata in one canonical spelling, as base64url. */
export function bodyDigest({ type, payload, metadata }: Pick<EventInput, "type" | "payload" | "metadata">): string {
  return hash(
    "sha256",
    JSON.stringify(sorted([type, payload ?? null, payload === undefined, metadata ?? null, metadata === undefined])),
    "base64url",
  );
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  // A map without a prototype: a member may be called `__proto__`.
  return Object.assign(Object.create(null) as object, Object.fromEntries(members.map(([key, member]) => [key, sorted(member)])));
}
