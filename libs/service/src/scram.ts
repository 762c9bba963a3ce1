/**
 * SCRAM-SHA-256 verifiers (RFC 5803) as Postgres stores them: a role's password can be set without the server, its logs or a
 * printed script ever holding the password.
 */
import { createHash, createHmac, pbkdf2Sync } from "node:crypto";

/** The default of Postgres 15–18. */
const iterations = 4_096;

export function scramVerifier(password: string, salt: Buffer): string {
  const salted = pbkdf2Sync(password, salt, iterations, 32, "sha256");
  const keyOf = (name: string): Buffer => createHmac("sha256", salted).update(name).digest();
  const stored = createHash("sha256").update(keyOf("Client Key")).digest("base64");
  return `SCRAM-SHA-256$${iterations}:${salt.toString("base64")}$${stored}:${keyOf("Server Key").toString("base64")}`;
}
