/** What the supervisor says with an invocation, and what the runtime lends to a request. */

/** Sent in `x-iterate-scope` as base64url of JSON. */
export interface InvocationHead {
  readonly ordinal: number;
  readonly contextPath: string;
  readonly callerPath: string;
  readonly logBytes: number;
  readonly module?: string;
  readonly className?: string;
}

export interface WaitUntil {
  waitUntil(work: Promise<unknown>): void;
}
