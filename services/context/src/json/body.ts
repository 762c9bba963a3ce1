/**
 * The one look at a body: is it storable JSON and, under an idempotency key, what is its digest. Runs in the caller's thread for
 * small bodies and in the worker for large ones (worker-pool.ts), so it takes and answers plain values.
 */
import { hash } from "node:crypto";
import { canonicalJson } from "./canonical.js";
import { jsonProblem } from "./scan.js";

export interface Body {
  readonly type: string;
  readonly payload: Uint8Array | null;
  readonly metadata: Uint8Array | null;
  /** Whether the digest is wanted. */
  readonly isKeyed: boolean;
}

export interface BodyVerdict {
  /** What is wrong, as "payload is not JSON …"; `null` when nothing is. */
  readonly problem: string | null;
  /** SHA-256 over the canonical JSON of type, payload and metadata. */
  readonly digest: Uint8Array | null;
}

export function examineBody(body: Body): BodyVerdict {
  const payload = body.payload === null ? null : bufferOf(body.payload);
  const metadata = body.metadata === null ? null : bufferOf(body.metadata);
  const problem = (payload === null ? null : named("payload", payload)) ?? (metadata === null ? null : named("metadata", metadata));
  if (problem !== null || !body.isKeyed) return { problem, digest: null };
  return { problem: null, digest: bodyDigest(body.type, payload, metadata) };
}

/** Two bodies are equal exactly when their digests are; an absent payload differs from `null`. */
export function bodyDigest(type: string, payload: Buffer | null, metadata: Buffer | null): Buffer {
  const parts = [`"type":${JSON.stringify(type)}`];
  if (payload !== null) parts.push(`"payload":${canonicalJson(payload.toString("utf8"))}`);
  if (metadata !== null) parts.push(`"metadata":${canonicalJson(metadata.toString("utf8"))}`);
  return hash("sha256", `{${parts.join(",")}}`, "buffer");
}

function named(name: string, bytes: Buffer): string | null {
  const problem = jsonProblem(bytes);
  return problem === null ? null : `${name} ${problem}`;
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
