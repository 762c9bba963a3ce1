/** Errors at the HTTP edge: RFC 9457 problem details, with the code of the closed list. */
import type { ServerResponse } from "node:http";
import { errorCodes, type CodedError } from "iterate/lib";
import { redactText } from "./redact.js";

export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: string;
  readonly data?: Readonly<Record<string, unknown>>;
}

/** Longest detail in characters. */
const maxDetailLength = 2_000;

export function problemOf(error: CodedError): Problem {
  const info = errorCodes[error.code];
  return {
    type: `urn:iterate:error:${error.code}`,
    title: info.description,
    status: info.http,
    detail: redactText(error.message).slice(0, maxDetailLength),
    code: error.code,
    ...(Object.keys(error.data).length === 0 ? {} : { data: error.data }),
  };
}

/** Answers with the problem, unless the answer has begun: then the connection is cut, so the client cannot take half for all. */
export function sendProblem(response: ServerResponse, error: CodedError): void {
  if (response.headersSent) return void response.destroy();
  const problem = problemOf(error);
  const body = JSON.stringify(problem, (_key, value: unknown) => (typeof value === "bigint" ? value.toString() : value));
  response.statusCode = problem.status;
  response.setHeader("content-type", "application/problem+json");
  response.setHeader("cache-control", "no-store");
  response.setHeader("content-length", Buffer.byteLength(body));
  if (error.retryable) response.setHeader("retry-after", Math.max(1, Math.ceil((error.retryAfterMs ?? 1_000) / 1_000)));
  response.end(body);
}
