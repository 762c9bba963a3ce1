/** Exit codes, and failures in words for a person or as JSON for a program. */
import { CommanderError } from "commander";
import { toCodedError, type ErrorCode } from "../lib/coded-error.js";

export const exitCodes = {
  succeeded: 0,
  /** The platform refused or failed. */
  failed: 1,
  /** The command line is wrong; nothing was sent. */
  usage: 2,
  /** No credential, a wrong one, or one that may not do this. */
  unauthenticated: 3,
  /** The platform is away or overloaded; the same command may succeed later. */
  unavailable: 4,
} as const;

/** A mistake in the command line that its parser could not see. */
export class UsageError extends Error {}

export interface Failure {
  readonly exitCode: number;
  /** Empty when the parser has already said it. */
  readonly report: string;
}

export function failureOf(thrown: unknown, asJson: boolean): Failure {
  if (thrown instanceof CommanderError) {
    // Help that was asked for, and the version, end with 0; help that is shown in place of a missing command does not.
    return { exitCode: thrown.exitCode === 0 ? exitCodes.succeeded : exitCodes.usage, report: "" };
  }
  if (thrown instanceof UsageError) return { exitCode: exitCodes.usage, report: `error: ${thrown.message}\n` };
  const { code, kind, message, data } = toCodedError(thrown);
  const exitCode = isRefusedCredential(code)
    ? exitCodes.unauthenticated
    : kind === "unavailable" || kind === "overloaded"
      ? exitCodes.unavailable
      : exitCodes.failed;
  const hint = hints[code];
  return {
    exitCode,
    report: asJson
      ? `${JSON.stringify({ error: { code, message, data } })}\n`
      : `error: ${message} (${code})\n${hint === undefined ? "" : `hint: ${hint}\n`}`,
  };
}

const isRefusedCredential = (code: ErrorCode): boolean =>
  code === "UNAUTHENTICATED" || code === "INVALID_CREDENTIALS" || code === "FORBIDDEN";

const hints: { readonly [Code in ErrorCode]?: string } = {
  INVALID_CREDENTIALS: "the token must be the one of this deployment; on one machine it is in .iterate/admin-token",
  IDEMPOTENCY_CONFLICT: "use another --key, or send the same event again",
  PROJECT_NAME_TAKEN: "`iterate projects list` shows the names in use",
  UNAVAILABLE: "--base-url or ITERATE_BASE_URL names the deployment",
};
