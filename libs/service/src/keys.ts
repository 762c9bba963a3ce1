/**
 * The key files of the services. Each service signs with one private Ed25519 key (`<service>.json`, 0600); all verify against one
 * set of public keys (`trusted.json`) that may hold several keys of a service, so a key is changed without a moment of refusal:
 * the new public key is trusted before the new private key signs, the old one stays trusted until its last token has expired.
 */
import { randomUUID } from "node:crypto";
import { chmod, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type CryptoKey, type JWK } from "jose";
import { codedError } from "iterate/lib";

/** A public key and the one service whose tokens it proves. */
export interface TrustedKey extends JWK {
  readonly kid: string;
  readonly service: string;
}

export interface KeyFiles {
  /** The private key file of a service. */
  readonly keyFile: (service: string) => string;
  readonly trustedKeysFile: string;
}

export interface GenerateKeysOptions {
  readonly directory: string;
  readonly services: readonly string[];
  /** Makes new private keys also where one exists; the newest `keptKeys` public keys of a service stay trusted. */
  readonly rotate?: boolean;
}

/** Public keys kept per service: the current one and its predecessor. */
const keptKeys = 2;

/** Where `generateKeys` puts things in a directory. */
export function keyFiles(directory: string): KeyFiles {
  return { keyFile: (service) => join(directory, `${service}.json`), trustedKeysFile: join(directory, "trusted.json") };
}

/**
 * Makes the keys that are missing (all, with `rotate`) and the trusted set that goes with them. Existing keys are kept, so it may
 * be repeated; files are replaced atomically and readable by their owner alone.
 */
export async function generateKeys(options: GenerateKeysOptions): Promise<KeyFiles> {
  const files = keyFiles(options.directory);
  await mkdir(options.directory, { recursive: true, mode: 0o700 });
  let trusted = await readTrusted(files.trustedKeysFile, []);
  const privateKeys: [string, JWK][] = [];
  for (const service of options.services) {
    const existing = options.rotate === true ? null : await readJwk(files.keyFile(service), null);
    const key = existing ?? (await newKey());
    const { d: _secret, ...publicKey } = key;
    const others = trusted.filter((entry) => entry.kid !== key.kid);
    const kept = others.filter((entry) => entry.service === service).slice(1 - keptKeys);
    trusted = [...others.filter((entry) => entry.service !== service), ...kept, { ...publicKey, kid: key.kid!, service }];
    if (existing === null) privateKeys.push([files.keyFile(service), key]);
  }
  await writeSecret(files.trustedKeysFile, { keys: trusted });
  for (const [path, key] of privateKeys) await writeSecret(path, key);
  return files;
}

/** The private key of a service, ready to sign. Throws INVALID_INPUT naming the file; never shows its content. */
export async function loadPrivateKey(path: string): Promise<{ kid: string; key: CryptoKey }> {
  const jwk = await readJwk(path);
  if (typeof jwk.kid !== "string" || typeof jwk.d !== "string")
    throw unreadable(path, "is not a private key with a `kid` and a `d`");
  return { kid: jwk.kid, key: await importKey(path, jwk) };
}

/** The trusted public keys by their key id. Throws INVALID_INPUT naming the file. */
export async function loadTrustedKeys(path: string): Promise<Map<string, { service: string; key: CryptoKey }>> {
  const keys = new Map<string, { service: string; key: CryptoKey }>();
  for (const jwk of await readTrusted(path)) {
    if (typeof jwk.kid !== "string" || typeof jwk.service !== "string")
      throw unreadable(path, "holds a key without `kid` or `service`");
    if ("d" in jwk) throw unreadable(path, "holds a private key; it must hold public keys alone");
    keys.set(jwk.kid, { service: jwk.service, key: await importKey(path, jwk) });
  }
  return keys;
}

async function newKey(): Promise<JWK> {
  const pair = await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true });
  const jwk = await exportJWK(pair.privateKey);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk) };
}

async function importKey(path: string, jwk: JWK): Promise<CryptoKey> {
  try {
    return (await importJWK(jwk, "EdDSA")) as CryptoKey;
  } catch {
    throw unreadable(path, "holds something that is not an Ed25519 key");
  }
}

async function readTrusted(path: string, missing?: TrustedKey[]): Promise<TrustedKey[]> {
  const set = await readJson(path, missing === undefined ? undefined : { keys: missing });
  const keys = (set as { keys?: unknown } | null)?.keys;
  if (!Array.isArray(keys)) throw unreadable(path, "is not a key set {keys: […]}");
  return keys as TrustedKey[];
}

async function readJwk(path: string): Promise<JWK>;
async function readJwk(path: string, missing: null): Promise<JWK | null>;
async function readJwk(path: string, missing?: null): Promise<JWK | null> {
  const jwk = await readJson(path, missing);
  if (jwk === null && missing === null) return null;
  if (typeof jwk !== "object" || jwk === null) throw unreadable(path, "is not a key");
  return jwk;
}

async function readJson(path: string, missing?: unknown): Promise<unknown> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT" && missing !== undefined) return missing;
    throw unreadable(path, `cannot be read (${code})`);
  }
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw unreadable(path, "is not JSON");
  }
}

async function writeSecret(path: string, value: unknown): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  await writeFile(temporary, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600, flag: "wx" });
  await chmod(temporary, 0o600);
  await rename(temporary, path);
}

function unreadable(path: string, problem: string) {
  return codedError("INVALID_INPUT", `key file ${path} ${problem}; make keys with \`make setup\` or mount the service's Secret`, {
    path,
  });
}
