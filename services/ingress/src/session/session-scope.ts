/** What all handles of one session share: who it is, what it may use, and what it may have open at once. */
import type { ContextCalls } from "@iterate-platform/service/context-calls";
import type { ContextLog } from "@iterate-platform/service/context-log";
import { codedError } from "iterate/lib";
import type { Archives } from "../project/archive-ports.js";
import type { ProjectImports } from "../project/imports.js";
import type { Projects } from "../project/projects.js";
import type { WebhookEndpoint } from "../project/contract.js";
import type { WebhookEndpoints } from "../webhook/endpoints.js";
import type { TelemetryReader } from "./telemetry-reader.js";

/** Subscriptions one session may have open. */
export const maxSubscriptions = 200;
/** Calls one session may have in flight. */
export const maxCallsInFlight = 1000;

export interface SessionParts {
  readonly projects: Projects;
  readonly endpoints: WebhookEndpoints;
  readonly telemetry: TelemetryReader;
  /** The log of a context, on behalf of the principal, until the signal aborts. */
  readonly contextLog: (owner: string, path: string, principal: string, signal: AbortSignal, deadlineMs?: number) => ContextLog;
  /** Calls at a context, on behalf of the principal, until the signal aborts. */
  readonly contextCalls: (
    owner: string,
    path: string,
    principal: string,
    signal: AbortSignal,
    deadlineMs?: number,
  ) => Pick<ContextCalls, "invoke" | "describe" | "explain">;
  /** Declares the log restored from a backup; answers the generation of each of its databases. */
  readonly declareLogRestored: (principal: string) => Promise<readonly number[]>;
  readonly archives: Pick<Archives, "export">;
  readonly imports: Pick<ProjectImports, "import">;
  readonly headOffset: (owner: string, path: string, principal: string) => Promise<number>;
  readonly addresses: Addresses;
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** Addresses that are told to people. */
export interface Addresses {
  project(slug: string): string;
  git(slug: string): string;
  webhook(endpoint: WebhookEndpoint): string;
}

export class SessionScope {
  #subscriptions = 0;
  #calls = 0;

  constructor(
    readonly parts: SessionParts,
    readonly principal: string,
    /** Aborts when the socket is gone or the service drains. */
    readonly signal: AbortSignal,
  ) {}

  /** Runs one call of the session. Throws OVERLOADED above the limit of calls in flight. */
  async call<Value>(run: () => Promise<Value>): Promise<Value> {
    if (this.#calls >= maxCallsInFlight)
      throw codedError("OVERLOADED", `the session has ${maxCallsInFlight} calls in flight; await some`);
    this.#calls += 1;
    try {
      return await run();
    } finally {
      this.#calls -= 1;
    }
  }

  /** Takes a place for a subscription; the answer gives it back. Throws OVERLOADED above the limit. */
  openSubscription(): () => void {
    if (this.#subscriptions >= maxSubscriptions) {
      throw codedError("OVERLOADED", `the session has ${maxSubscriptions} subscriptions open; dispose of some`);
    }
    this.#subscriptions += 1;
    return () => {
      this.#subscriptions -= 1;
    };
  }
}
