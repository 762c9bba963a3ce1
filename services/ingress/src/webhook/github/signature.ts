/**
 * The headers of a GitHub delivery. Source: GitHub docs, "Validating webhook deliveries" and "Webhook events and payloads":
 * `X-Hub-Signature-256: sha256=<hex HMAC-SHA256 of the raw body>`, `X-GitHub-Delivery: <GUID>`, `X-GitHub-Event: <name>`.
 */
import { codedError } from "iterate/lib";

export interface DeliveryHeaders {
  /** Id that every redelivery of the same delivery repeats. */
  readonly id: string;
  /** Event name, for example `issues`. */
  readonly name: string;
  /** The 32 bytes of the signature. */
  readonly signature: Uint8Array;
}

/** Value of a header that must appear exactly once; several are a forgery or a broken proxy. */
export type SingleHeader = (name: string) => string | undefined;

const idPattern = /^[A-Za-z0-9-]{1,128}$/;
const namePattern = /^[a-z][a-z0-9_]{0,99}$/;
const signaturePattern = /^sha256=([0-9a-fA-F]{64})$/;

/**
 * Reads the three headers. Throws INVALID_SIGNATURE when there is no well-formed signature and INVALID_INPUT when id or name are
 * missing or odd; none is retryable.
 */
export function deliveryHeaders(header: SingleHeader): DeliveryHeaders {
  const signature = signaturePattern.exec(header("x-hub-signature-256") ?? "")?.[1];
  if (signature === undefined) {
    throw codedError(
      "INVALID_SIGNATURE",
      "header X-Hub-Signature-256 is not 'sha256=' and 64 hexadecimal digits; set the endpoint's secret at GitHub",
    );
  }
  return {
    id: matching("X-GitHub-Delivery", header("x-github-delivery"), idPattern),
    name: matching("X-GitHub-Event", header("x-github-event"), namePattern),
    signature: Buffer.from(signature, "hex"),
  };
}

function matching(header: string, value: string | undefined, pattern: RegExp): string {
  if (value === undefined)
    throw codedError("INVALID_INPUT", `header ${header} is missing; GitHub sends it with every delivery`, { header });
  if (!pattern.test(value))
    throw codedError("INVALID_INPUT", `header ${header} is ${JSON.stringify(value.slice(0, 80))}, not what GitHub sends`, {
      header,
    });
  return value;
}
