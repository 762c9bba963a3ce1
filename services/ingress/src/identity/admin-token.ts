/** The operator's token of a one-machine stack or an environment: the one credential until people sign in. It is never logged. */
import { createHash, timingSafeEqual } from "node:crypto";
import { codedError } from "iterate/lib";

export const minAdminTokenBytes = 32;

export class AdminToken {
  /** What `source.principal` says of what the operator writes. */
  readonly principal = "admin";
  readonly #digest: Buffer;

  /** Throws INVALID_INPUT, without the value, when the token is shorter than 32 bytes. */
  constructor(token: string) {
    const length = Buffer.byteLength(token);
    if (length < minAdminTokenBytes)
      throw codedError("INVALID_INPUT", `the admin token is ${length} bytes, fewer than ${minAdminTokenBytes}`);
    this.#digest = digest(token);
  }

  /** Compares in constant time. */
  matches(given: string): boolean {
    return timingSafeEqual(this.#digest, digest(given));
  }
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

/** The token of `Authorization: Bearer …`, or the password of `Basic …` as git sends it; null when there is none. */
export function tokenOfAuthorization(header: string | undefined): string | null {
  const [scheme, value, ...rest] = (header ?? "").trim().split(/\s+/);
  if (value === undefined || rest.length > 0) return null;
  if (scheme?.toLowerCase() === "bearer") return value;
  if (scheme?.toLowerCase() !== "basic") return null;
  const decoded = Buffer.from(value, "base64").toString("utf8");
  const colon = decoded.indexOf(":");
  return colon === -1 ? null : decoded.slice(colon + 1);
}
