/**
 * The key-encryption keys of this deployment. One is primary and seals; all of them open, so a key is rotated by adding one,
 * making it primary, and removing the old one once nothing is sealed under it any more.
 */
import { createSecretKey, type KeyObject } from "node:crypto";
import { readFileSync } from "node:fs";
import { z } from "zod";
import { codedError } from "iterate/lib";

/** The text of `ITERATE_SECRET_KEYS`: `{"primary":"2025-a","keys":{"2025-a":"<base64 of 32 bytes>"}}`. */
const keyringText = z.strictObject({
  primary: z.string(),
  keys: z.record(z.string().regex(/^[A-Za-z0-9._-]{1,64}$/), z.base64()),
});

const keyBytes = 32;

export class Keyring {
  readonly #keys: ReadonlyMap<string, KeyObject>;
  /** Id of the key that seals. */
  readonly primaryId: string;

  private constructor(primaryId: string, keys: ReadonlyMap<string, KeyObject>) {
    this.primaryId = primaryId;
    this.#keys = keys;
  }

  /** Reads a keyring from JSON text. Throws INVALID_INPUT, never quoting a key, when it is not one. */
  static parse(text: string): Keyring {
    const parsed = keyringText.safeParse(parseJson(text));
    if (!parsed.success) throw refusal(`does not have the form {"primary": id, "keys": {id: base64 of ${keyBytes} bytes}}`);
    const keys = new Map<string, KeyObject>();
    for (const [id, encoded] of Object.entries(parsed.data.keys)) {
      const bytes = Buffer.from(encoded, "base64");
      if (bytes.length !== keyBytes) throw refusal(`holds the key ${JSON.stringify(id)} of ${bytes.length} bytes, not ${keyBytes}`);
      keys.set(id, createSecretKey(bytes));
      bytes.fill(0);
    }
    if (!keys.has(parsed.data.primary))
      throw refusal(`names the primary key ${JSON.stringify(parsed.data.primary)} and does not hold it`);
    return new Keyring(parsed.data.primary, keys);
  }

  /** Reads a keyring from JSON text, or from the file the text names when it does not begin with `{`. Throws as `parse`. */
  static load(textOrFile: string): Keyring {
    if (textOrFile.trimStart().startsWith("{")) return Keyring.parse(textOrFile);
    let text: string;
    try {
      text = readFileSync(textOrFile, "utf8");
    } catch (error) {
      throw refusal(`names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`);
    }
    return Keyring.parse(text);
  }

  get primary(): KeyObject {
    return this.#keys.get(this.primaryId)!;
  }

  /** The key with this id. Throws INTERNAL when the deployment does not hold it: a key was removed while still in use. */
  key(id: string): KeyObject {
    const key = this.#keys.get(id);
    if (key === undefined)
      throw codedError("INTERNAL", `the key-encryption key ${JSON.stringify(id)} is not among ITERATE_SECRET_KEYS; add it back`, {
        keyId: id,
      });
    return key;
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw refusal("is not JSON");
  }
}

const refusal = (problem: string): Error => codedError("INVALID_INPUT", `ITERATE_SECRET_KEYS ${problem}`);
