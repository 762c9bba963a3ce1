/**
 * `itx`: how code running in the platform reaches its context. Every name that is not here rejects with NOT_A_METHOD. The second
 * half of the file is the seam between the SDK and the process that runs the code.
 */
import type { Expression, Json } from "../expression/expression.js";
import type { ContextCalls } from "./context.js";
import type { Description } from "./describe.js";

/** A scope on one context. `using itx = this.getItx()` ends it: a call made afterwards rejects with CANCELLED. */
export interface Itx extends ContextCalls, Disposable {
  /** The same surface at another context of the project, resolved as a path: `..`, `./x`, `/agents/b`. Throws INVALID_CONTEXT. */
  cd(path: string): Itx;
  readonly facets: ItxFacets;
  /**
   * What an expression answers at this context by its rules, `args` given to its end: `itx.invoke("itx.db.get", "k")`. What it appends
   * lands once, however often the event in hand is delivered. Throws NO_ITX_EXPRESSION_MATCH, NOT_A_METHOD, INVALID_INPUT (a stream is
   * not taken here), FORBIDDEN, and what the method throws.
   */
  invoke(expression: string | Expression, ...args: Json[]): Promise<unknown>;
  /** What an expression is and how it is called; without one, what the context answers. */
  describe(expression?: string | Expression): Promise<Description>;
}

export interface ItxFacets {
  /** The durable class or processor hosted in this context under `name`. Its calls reject with NO_FACET when there is none. */
  get(name: string): FacetHandle;
}

export interface FacetHandle {
  /** The processor's state and the offset it has folded through. */
  snapshot<State = unknown>(): Promise<FacetSnapshot<State>>;
  /** Resolves once the facet has processed `offset`; WAIT_TIMEOUT after `timeoutMs` (default 10,000, at most 120,000). */
  waitUntilProcessed(args: WaitUntilProcessedArgs): Promise<{ readonly offset: number }>;
}

export interface FacetSnapshot<State = unknown> {
  readonly offset: number;
  /** `null` until the processor has ended its first batch: after its first publication, or while that batch fails. */
  readonly state: State | null;
}

export interface WaitUntilProcessedArgs {
  readonly offset: number;
  readonly timeoutMs?: number;
}

/** Name of the global that the isolate's harness sets before it evaluates project code: `globalThis[Symbol.for(isolateGlobal)]`. */
export const isolateGlobal = "iterate.isolate";

/** What the harness puts there. */
export interface IsolateHost {
  /** The invocation the calling code belongs to (kept by AsyncLocalStorage); throws INTERNAL outside one. */
  invocation(): IsolateInvocation;
}

export interface IsolateInvocation {
  /** Carries the calls of `itx` to the host for as long as the invocation lasts. */
  readonly itx: ItxRoot;
  /** The context the code runs in. */
  readonly contextPath: string;
  /** The context the call came from; the same as `contextPath` for a request from outside. */
  readonly callerPath: string;
}

/** The one door out of an isolate. The SDK builds `Itx` on it, so the harness knows no method by name. */
export interface ItxRoot {
  /**
   * Calls `method` with JSON arguments at the context `path` (absolute, resolved). Methods: the names of `ItxMethods`. The host
   * checks name and arguments and answers a JSON value, or throws an `Error` with own `code` and `data`.
   */
  hostCall(method: string, args: readonly unknown[], path: string): Promise<unknown>;
}

/** The methods that travel through `hostCall` and their argument lists. */
export interface ItxMethods {
  whoami: [];
  append: Parameters<ContextCalls["append"]>;
  readEvents: Parameters<ContextCalls["readEvents"]>;
  waitForEvent: Parameters<ContextCalls["waitForEvent"]>;
  "facets.snapshot": [name: string];
  invoke: Parameters<Itx["invoke"]>;
  describe: Parameters<Itx["describe"]>;
  "facets.waitUntilProcessed": [name: string, args: WaitUntilProcessedArgs];
}
