/** The key under which an append made by code lands once, however often its delivery is repeated. */
import { hash } from "node:crypto";
import { maxIdempotencyKeyBytes, type EventInput } from "iterate/stream/processor";
import { bodyDigest } from "../log/body-digest.js";

/** Room for where an append goes, and a digest of it, behind the scope of a call. */
const maxKeyScopeBytes = 384;

export interface AppendOrigin {
  /** Subscription whose delivery appends. */
  readonly subscription: string;
  /** Its context. */
  readonly path: string;
  /** Offset of the event in hand; when the code names none, the place after which its batch began. */
  readonly offset: number;
}

/**
 * `<subscription>:<path>@<offset>:append:<where>:<digest>`: the same for the same write while handling the same event. Paths too long
 * for a key stand in it as digests.
 */
export function appendKey({ subscription, path, offset }: AppendOrigin, where: string, event: EventInput): string {
  const digest = bodyDigest(event);
  const full = `${subscription}:${path}@${offset}:append:${where}:${digest}`;
  if (Buffer.byteLength(full) <= maxIdempotencyKeyBytes) return full;
  return `${subscription}:~${pathDigest(path)}@${offset}:append:~${pathDigest(where)}:${digest}`;
}

/** What the keys begin with of what a call appends while handling the same event. */
export function callKeyScope({ subscription, path, offset }: AppendOrigin): string {
  const full = `${subscription}:${path}@${offset}:call`;
  return Buffer.byteLength(full) <= maxKeyScopeBytes ? full : `${subscription}:~${pathDigest(path)}@${offset}:call`;
}

function pathDigest(path: string): string {
  return hash("sha256", path, "base64url");
}
