/**
 * Sealing: each secret is encrypted under a data key of its own, and the data key under a key-encryption key (AES-256-GCM both).
 * Both boxes are bound to the context they were made for, so a sealed value copied to another project or path does not open.
 */
import { createCipheriv, createDecipheriv, createSecretKey, randomBytes, type CipherKey } from "node:crypto";
import type { z } from "zod";
import { codedError } from "iterate/lib";
import type { secret } from "iterate/events";
import type { Keyring } from "./keyring.js";

/** What the payload of `secret/set` holds under `sealed`. */
export type Sealed = z.infer<typeof secret.secretSet.payload>["sealed"];

export interface SecretAddress {
  readonly owner: string;
  readonly path: string;
}

const algorithm = "aes-256-gcm";
const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;

export function seal(keyring: Keyring, address: SecretAddress, material: Uint8Array): Sealed {
  const dataKey = randomBytes(keyBytes);
  try {
    return {
      keyId: keyring.primaryId,
      wrappedKey: encrypt(keyring.primary, binding(address, "key"), dataKey).toString("base64"),
      box: encrypt(createSecretKey(dataKey), binding(address, "material"), material).toString("base64"),
    };
  } finally {
    dataKey.fill(0);
  }
}

/**
 * Answers the material. Throws INTERNAL when the key-encryption key is missing, or when the boxes were altered or belong to
 * another context; the error holds none of them.
 */
export function open(keyring: Keyring, address: SecretAddress, sealed: Sealed): Buffer {
  const key = keyring.key(sealed.keyId);
  try {
    const dataKey = decrypt(key, binding(address, "key"), Buffer.from(sealed.wrappedKey, "base64"));
    try {
      return decrypt(createSecretKey(dataKey), binding(address, "material"), Buffer.from(sealed.box, "base64"));
    } finally {
      dataKey.fill(0);
    }
  } catch {
    throw codedError("INTERNAL", `the secret at ${address.path} does not open under the key ${JSON.stringify(sealed.keyId)}`, {
      path: address.path,
      keyId: sealed.keyId,
    });
  }
}

function binding({ owner, path }: SecretAddress, part: "key" | "material"): Buffer {
  return Buffer.from(`iterate.secret.v1\0${part}\0${owner}\0${path}`);
}

/** nonce, ciphertext, tag. */
function encrypt(key: CipherKey, binding: Buffer, plain: Uint8Array): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes }).setAAD(binding);
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(key: CipherKey, binding: Buffer, box: Buffer): Buffer {
  const nonce = box.subarray(0, nonceBytes);
  const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagBytes }).setAAD(binding);
  decipher.setAuthTag(box.subarray(box.length - tagBytes));
  return Buffer.concat([decipher.update(box.subarray(nonceBytes, box.length - tagBytes)), decipher.final()]);
}
