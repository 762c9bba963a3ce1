/** SecretService: decode, authorize, call, encode. Nothing here may put material, payload or signature into an error. */
import { SignatureScheme as SchemeMessage, type SecretServiceService } from "@iterate-platform/proto/iterate/context/v1/secret";
import type { Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import { codedError } from "iterate/lib";
import type { Writer } from "../caller/contract.js";
import type { NewChain } from "../caller/writer.js";
import type { ContextAddress } from "../log/contract.js";
import type { Secrets } from "../secret/secrets.js";
import type { SignatureScheme } from "../secret/signature.js";
import { plainAddress } from "./input.js";

export const secretRules: MethodRules<SecretServiceService> = {
  set: { services: ["ingress"], execution: "refused", person: "allowed" },
  verify: { services: ["ingress"], execution: "refused", person: "allowed" },
};

export const secretLimits = {
  materialBytes: 65_536,
  origins: 100,
  originBytes: 256,
  payloadBytes: 16_777_216,
  signatureBytes: 1_024,
} as const;

const pathPattern = /^\/secrets\/[^/]+$/;

export interface SecretParts {
  readonly secrets: Secrets;
  readonly newChain: NewChain;
  /** The traceparent of the call now being served. */
  readonly traceparent: () => string | null;
}

export function secretHandlers({ secrets, newChain, traceparent }: SecretParts): Handlers<SecretServiceService> {
  return {
    set: async ({ owner, path, material, origins }, { caller }) => {
      const address = secretAddress(owner, path);
      bytesWithin("material", material, 1, secretLimits.materialBytes);
      // The service vouches for the fact whoever asked for it: a person cannot write it, and is named.
      const writer: Writer = {
        kind: "service",
        origin: null,
        cause: { chain: newChain("service"), depth: 0 },
        principal: caller.principal ?? null,
        isPlatform: true,
        owner: null,
        lease: null,
      };
      try {
        return { offset: BigInt(await secrets.set(address, material, originsOf(origins), writer, traceparent())) };
      } finally {
        material.fill(0);
      }
    },
    verify: async ({ owner, path, scheme, payload, signature }) => {
      const address = secretAddress(owner, path);
      bytesWithin("payload", payload, 0, secretLimits.payloadBytes);
      bytesWithin("signature", signature, 0, secretLimits.signatureBytes);
      return { valid: await secrets.verify(address, schemeOf(scheme), payload, signature) };
    },
  };
}

function secretAddress(owner: string, path: string): ContextAddress {
  const address = plainAddress(owner, path);
  if (!pathPattern.test(path))
    throw codedError("INVALID_CONTEXT", `a secret lives at /secrets/<name>, not at ${JSON.stringify(path.slice(0, 120))}`);
  return address;
}

function bytesWithin(field: string, { length }: Uint8Array, min: number, max: number): void {
  if (length < min || length > max)
    throw codedError("INVALID_INPUT", `${field} has ${length} bytes; it must have ${min} to ${max}`, { max });
}

function originsOf(origins: readonly string[]): readonly string[] {
  if (origins.length > secretLimits.origins)
    throw codedError("INVALID_INPUT", `origins holds ${origins.length}; it may hold ${secretLimits.origins}`);
  for (const origin of origins) {
    const isOrigin =
      Buffer.byteLength(origin) <= secretLimits.originBytes &&
      URL.canParse(origin) &&
      /^https?:/.test(origin) &&
      new URL(origin).origin === origin;
    if (!isOrigin)
      throw codedError(
        "INVALID_INPUT",
        `origins holds ${JSON.stringify(origin.slice(0, 120))}; an origin is https://host or https://host:port, lower-case, without a path`,
      );
  }
  return origins;
}

function schemeOf(scheme: SchemeMessage): SignatureScheme {
  if (scheme === SchemeMessage.SIGNATURE_SCHEME_HMAC_SHA256) return "hmac-sha256";
  throw codedError("INVALID_INPUT", `scheme ${scheme} is not one that is known`);
}
