/**
 * The host side of `itx` for one invocation of project code: the methods of the surface, and nothing else. What a call may do is
 * decided by the invocation's claims alone; method, path and arguments are hostile.
 */
import type { ContextIdentity, ItxMethods } from "iterate/api";
import { toStreamEvent } from "@iterate-platform/service/stream-event";
import { assertContextPath, codedError } from "iterate/lib";
import type { ExecutionScope } from "../delivery/batch.js";
import type { Snapshots } from "../delivery/snapshots.js";
import type { IsolateHost, IsolateHostCall } from "../isolate/host-reply.js";
import type { ContextLog } from "../log/contract.js";
import { callKeyScope } from "./append-key.js";
import { askedExpression, calledExpression, eventInputs, facetName, none, readArgs, waitArgs, waitUntilArgs } from "./arguments.js";
import type { ProjectNames } from "./project-names.js";
import { assertCodeMayWrite } from "./wall.js";
import { InvocationWriter, type DeliveryInHand } from "./writer.js";

/** Most calls of one invocation; beyond it every call is refused. */
export const maxHostCalls = 10_000;
const defaultWaitMs = 30_000;

export interface ItxHostParts {
  readonly log: ContextLog;
  readonly snapshots: Snapshots;
  readonly names: ProjectNames;
}

/** Whose code runs, and for what. */
export interface ItxInvocation {
  readonly scope: ExecutionScope;
  /** The delivery in hand; null for a request. */
  readonly delivery: DeliveryInHand | null;
  /** Takes what the code logs. */
  readonly record?: NonNullable<IsolateHost["log"]>;
}

type Method = keyof ItxMethods;

export class ItxHost implements IsolateHost {
  readonly log: NonNullable<IsolateHost["log"]>;
  readonly #parts: ItxHostParts;
  readonly #invocation: ItxInvocation;
  readonly #writer: InvocationWriter;
  readonly #methods: Readonly<Record<Method, (path: string, args: readonly unknown[], signal: AbortSignal) => Promise<unknown>>> = {
    whoami: (path, args) => this.#whoami(path, args),
    append: (path, args) => this.#append(path, args),
    readEvents: (path, args) => this.#writer.readEvents(path, readArgs(args)),
    waitForEvent: (path, args, signal) => this.#waitForEvent(path, args, signal),
    invoke: (path, args, signal) => this.#invoke(path, args, signal),
    describe: async (path, args, signal) => (await this.#callsAt(path, signal)).describe(askedExpression(args)),
    "facets.snapshot": (path, args) => this.#parts.snapshots.snapshot(this.#address(path), facetName(args)),
    "facets.waitUntilProcessed": (path, args, signal) => this.#waitUntilProcessed(path, args, signal),
  };
  #calls = 0;

  constructor(parts: ItxHostParts, invocation: ItxInvocation) {
    this.#parts = parts;
    this.#invocation = invocation;
    this.#writer = new InvocationWriter({ log: parts.log, ...invocation });
    this.log = invocation.record ?? (() => undefined);
  }

  /** @throws NOT_A_METHOD, INVALID_CONTEXT, INVALID_INPUT, QUOTA, and what the method itself is refused with. */
  async hostCall({ method, path, args }: IsolateHostCall, signal: AbortSignal): Promise<unknown> {
    this.#calls += 1;
    if (this.#calls > maxHostCalls) throw codedError("QUOTA", `an invocation may make ${maxHostCalls} calls`, { maxHostCalls });
    if (!Object.hasOwn(this.#methods, method))
      throw codedError("NOT_A_METHOD", `itx has no method ${JSON.stringify(method.slice(0, 100))}`, {
        method: method.slice(0, 100),
      });
    assertContextPath(path);
    return await this.#methods[method as Method](path, args, AbortSignal.any([signal, this.#invocation.scope.signal]));
  }

  async #invoke(path: string, args: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const { delivery, scope } = this.#invocation;
    const keyScope = delivery === null ? "" : callKeyScope({ ...delivery, path: scope.claims.context, offset: delivery.after });
    const answer = await (await this.#callsAt(path, signal)).invoke(calledExpression(args), keyScope);
    if (answer.kind === "value") return answer.value ?? null;
    await answer.items[Symbol.asyncIterator]().return?.();
    throw codedError("INVALID_INPUT", "the call answers a stream, which project code does not take", { method: "invoke" });
  }

  async #callsAt(path: string, signal: AbortSignal) {
    const { scope } = this.#invocation;
    const execution = await scope.execution();
    return this.#parts.log.calls(this.#address(path), { execution, traceparent: scope.traceparent, signal });
  }

  #address(path: string) {
    return { owner: this.#invocation.scope.claims.owner, path };
  }

  async #whoami(path: string, args: readonly unknown[]): Promise<ContextIdentity> {
    none(args);
    const { owner } = this.#invocation.scope.claims;
    return { projectId: owner, projectSlug: await this.#parts.names.slugOf(owner), path };
  }

  async #append(path: string, args: readonly unknown[]): Promise<unknown> {
    const events = eventInputs(args);
    for (const event of events) assertCodeMayWrite(event);
    return await this.#writer.append(path, events);
  }

  async #waitForEvent(path: string, args: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const { types, payload, afterOffset, timeoutMs } = waitArgs(args);
    const event = await this.#parts.log.waitForEvent(
      this.#address(path),
      {
        types,
        timeoutMs: timeoutMs ?? defaultWaitMs,
        ...(payload === undefined ? {} : { payload: Buffer.from(JSON.stringify(payload)) }),
        ...(afterOffset === undefined ? {} : { after: afterOffset }),
      },
      { execution: await this.#invocation.scope.execution(), signal },
    );
    return toStreamEvent(event, path);
  }

  async #waitUntilProcessed(path: string, args: readonly unknown[], signal: AbortSignal): Promise<{ offset: number }> {
    const { name, offset, timeoutMs } = waitUntilArgs(args);
    return { offset: await this.#parts.snapshots.waitUntilProcessed(this.#address(path), name, offset, timeoutMs, signal) };
  }
}
