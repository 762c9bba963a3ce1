/**
 * The secrets of a stack, made once and kept: the services' signing keys, the key that seals project secrets, the admin token.
 */
import { randomBytes } from "node:crypto";
import { existsSync, writeFileSync } from "node:fs";
import { generateKeys } from "@iterate-platform/service/trust";
import { serviceRows } from "./services.js";
import { secretFile, type StatePaths } from "./state.js";

/**
 * Makes what is missing.
 *
 * @returns the admin token.
 */
export async function prepareSecrets(state: StatePaths): Promise<string> {
  const services = serviceRows.filter((row) => row.hasKey).map((row) => row.name);
  await generateKeys({ directory: state.keysFolder, services });
  if (!existsSync(state.secretKeysFile)) {
    const keys = { primary: "1", keys: { "1": randomBytes(32).toString("base64") } };
    writeFileSync(state.secretKeysFile, `${JSON.stringify(keys)}\n`, { mode: 0o600 });
  }
  return secretFile(state.adminTokenFile);
}
