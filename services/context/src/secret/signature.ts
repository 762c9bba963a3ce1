/** Signatures made with a secret over raw bytes. */
import { createHmac, timingSafeEqual } from "node:crypto";

export type SignatureScheme = "hmac-sha256";

/** True when `signature` was made with `material` over exactly `payload`; takes the same time wherever the first difference is. */
export function isSignature(scheme: SignatureScheme, material: Uint8Array, payload: Uint8Array, signature: Uint8Array): boolean {
  const expected = makers[scheme](material, payload);
  return signature.length === expected.length && timingSafeEqual(signature, expected);
}

const makers: Record<SignatureScheme, (material: Uint8Array, payload: Uint8Array) => Buffer> = {
  "hmac-sha256": (material, payload) => createHmac("sha256", material).update(payload).digest(),
};
