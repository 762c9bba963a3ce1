/** A context as a session holds it. */
import type {
  CallAnswer,
  CallArgs,
  ContextApi,
  ContextIdentity,
  Description,
  EventInput,
  EventsCallback,
  EventsPage,
  ExplainSubject,
  Explanation,
  ExpressionForm,
  ReadEventsArgs,
  StreamEvent,
  SubscribeArgs,
  SubscriptionApi,
  WaitForEventArgs,
} from "iterate/api";
import { assertExpression, toExpression, withArgs, type Expression, type Json } from "iterate/expression";
import { codedError, resolveContextPath } from "iterate/lib";
import type { Project } from "../project/contract.js";
import { ApiTarget } from "./api-target.js";
import { call, checked, events as eventsSchema, explain, readEvents, subscribe, text, waitForEvent } from "./arguments.js";
import { ItemStream } from "./item-stream.js";
import type { SessionScope } from "./session-scope.js";
import { Subscription } from "./subscription.js";

/** Streams live as long as their socket; this bound only makes each call end some day, and the subscription then goes on by itself. */
const followDeadlineMs = 24 * 3_600_000;

/** Longer than the longest wait a call may make. */
const callDeadlineMs = 150_000;

/** A function of the client's: it is disposed when the call returns, unless duplicated. */
export interface ClientCallback {
  (frame: unknown): Promise<unknown>;
  dup?(): ClientCallback;
  [Symbol.dispose]?(): void;
}

export class ContextHandle extends ApiTarget implements ContextApi {
  readonly #scope: SessionScope;
  readonly #project: Project;
  readonly #path: string;

  constructor(scope: SessionScope, project: Project, path: string) {
    super();
    this.#scope = scope;
    this.#project = project;
    this.#path = path;
  }

  async whoami(): Promise<ContextIdentity> {
    return { projectId: this.#project.id, projectSlug: this.#project.slug, path: this.#path };
  }

  async cd(path: string): Promise<ContextApi> {
    return new ContextHandle(this.#scope, this.#project, resolveContextPath(this.#path, checked("cd", text, path)));
  }

  append(...events: EventInput[]): Promise<StreamEvent[]> {
    const inputs = checked("append", eventsSchema, events).map(({ source: _source, ...event }) => event as EventInput);
    return this.#scope.call(() => this.#log().append(inputs));
  }

  readEvents(args?: ReadEventsArgs): Promise<EventsPage> {
    const page = checked("readEvents", readEvents, args) as ReadEventsArgs | undefined;
    return this.#scope.call(() => this.#log().read(page));
  }

  waitForEvent(args: WaitForEventArgs): Promise<StreamEvent> {
    const wait = checked("waitForEvent", waitForEvent, args) as WaitForEventArgs;
    return this.#scope.call(() => this.#log().wait(wait));
  }

  invoke(given: ExpressionForm, ...args: Json[]): Promise<unknown> {
    const expression = expressionOf(given, args);
    return this.#scope.call(async () => {
      const { signal } = this.#scope;
      const answer = await this.#calls(signal, callDeadlineMs).invoke(expression);
      if (answer.kind === "value") return answer.value;
      await answer.items[Symbol.asyncIterator]().return?.();
      throw codedError("INVALID_INPUT", "the call answers a stream; use call({expression, onItem})", { method: "invoke" });
    });
  }

  async call(args: CallArgs): Promise<CallAnswer> {
    const { expression: given, onItem } = checked("call", call, args);
    if (typeof onItem !== "function") throw codedError("INVALID_INPUT", "call: onItem is not a function", { method: "call" });
    const expression = expressionOf(given as ExpressionForm, []);
    const release = this.#scope.openSubscription();
    const callback = (onItem as ClientCallback).dup?.() ?? (onItem as ClientCallback);
    const ending = new AbortController();
    const end = (): void => {
      ending.abort();
      release();
      callback[Symbol.dispose]?.();
    };
    try {
      const signal = AbortSignal.any([this.#scope.signal, ending.signal]);
      const answer = await this.#scope.call(() => this.#calls(signal, followDeadlineMs).invoke(expression));
      if (answer.kind === "value") {
        end();
        return answer.value === undefined ? {} : { value: answer.value };
      }
      const deliver = async (item: unknown): Promise<void> => void (await callback(item));
      return { stream: new ItemStream({ items: answer.items, deliver, signal, onEnd: end }) };
    } catch (error) {
      end();
      throw error;
    }
  }

  describe(given?: ExpressionForm): Promise<Description> {
    const expression = given === undefined ? undefined : expressionOf(given, []);
    return this.#scope.call(() => this.#calls(this.#scope.signal, callDeadlineMs).describe(expression));
  }

  explain(given: ExplainSubject): Promise<Explanation> {
    const subject = checked("explain", explain, given);
    return this.#scope.call(() => this.#calls(this.#scope.signal, callDeadlineMs).explain(subject));
  }

  async subscribe(target: EventsCallback | SubscribeArgs): Promise<SubscriptionApi> {
    const args = typeof target === "function" ? { onEvents: target } : (checked("subscribe", subscribe, target) as SubscribeArgs);
    if (typeof args.onEvents !== "function")
      throw codedError("INVALID_INPUT", "subscribe: onEvents is not a function", { method: "subscribe" });
    const { parts, principal, signal } = this.#scope;
    const given = args.onEvents as ClientCallback;
    const release = this.#scope.openSubscription();
    const callback = given.dup?.() ?? given;
    try {
      const afterOffset = args.afterOffset ?? (await parts.headOffset(this.#project.id, this.#path, principal));
      return new Subscription({
        afterOffset,
        tellStart: args.afterOffset === undefined,
        follow: (after, until) =>
          parts.contextLog(this.#project.id, this.#path, principal, until, followDeadlineMs).follow({
            afterOffset: after,
            includeEphemeral: args.includeEphemeral ?? false,
            ...(args.types === undefined ? {} : { types: args.types }),
          }),
        deliver: async (frame) => void (await callback(frame)),
        signal,
        pause: parts.pause,
        onEnd: () => {
          release();
          callback[Symbol.dispose]?.();
        },
      });
    } catch (error) {
      release();
      callback[Symbol.dispose]?.();
      throw error;
    }
  }

  #calls(signal: AbortSignal, deadlineMs: number) {
    return this.#scope.parts.contextCalls(this.#project.id, this.#path, this.#scope.principal, signal, deadlineMs);
  }

  #log() {
    return this.#scope.parts.contextLog(this.#project.id, this.#path, this.#scope.principal, this.#scope.signal);
  }
}

/** Throws INVALID_INPUT, EXPRESSION_TOO_LONG. */
function expressionOf(given: ExpressionForm, args: readonly Json[]): Expression {
  const expression = toExpression(given);
  if (args.length === 0) return expression;
  const whole = withArgs(expression, args);
  assertExpression(whole);
  return whole;
}
