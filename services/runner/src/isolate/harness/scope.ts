/**
 * The invocation that the running code belongs to, and the one global through which the SDK finds it. Evaluated before any code of
 * the project, in the same isolate: nothing here is a wall, it only keeps honest code's calls and records apart.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { HostSession } from "./host-session.js";

export interface Scope {
  /** Number of the invocation in this process; tags its records. */
  readonly ordinal: number;
  readonly contextPath: string;
  readonly callerPath: string;
  readonly session: HostSession;
  /** Characters of log text that may still be written. */
  logAllowance: number;
  hasLogged: boolean;
}

export const scopes = new AsyncLocalStorage<Scope>();

function invocation() {
  const scope = scopes.getStore();
  if (scope === undefined) {
    throw Object.assign(new Error("There is no invocation here: itx exists only while a call runs, not at module top level."), {
      code: "INTERNAL",
      data: {},
    });
  }
  const { contextPath, callerPath, session } = scope;
  return {
    contextPath,
    callerPath,
    itx: { hostCall: (method: string, args: readonly unknown[], path: string) => session.call(method, args, path) },
  };
}

Object.defineProperty(globalThis, Symbol.for("iterate.isolate"), { value: Object.freeze({ invocation }) });
