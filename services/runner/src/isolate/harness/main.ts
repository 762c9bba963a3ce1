/**
 * The worker that workerd runs: it takes the supervisor's requests and hands them to the project's code, each inside its own scope.
 * The order of the imports is the order of evaluation: console, fetch and the SDK's global are in place before the project loads.
 * Nothing here is trusted by the supervisor, because the project's code shares its realm.
 */
import "./console.js";
import "./egress.js";
import { describeBundle } from "./describe.js";
import { failureOf } from "./failure.js";
import { HostSession, type HostBinding } from "./host-session.js";
import { processBatch } from "./process-batch.js";
import { handleFetch } from "./handle-fetch.js";
import { recordsDrained } from "./console.js";
import { scopes, type Scope } from "./scope.js";

interface WorkerEnv {
  readonly HOST: HostBinding;
}

/** What the supervisor sends with an invocation, in `x-iterate-scope` as base64url of JSON. */
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

export default {
  async fetch(request: Request, env: WorkerEnv, runtime: WaitUntil): Promise<Response> {
    const operation = request.headers.get("x-iterate-operation");
    if (operation === "ping") return new Response("pong");
    const head = headOf(request);
    if (operation === "drain") {
      recordsDrained(head.ordinal);
      return new Response("drained");
    }
    const { ordinal, contextPath, callerPath, logBytes } = head;
    const session = new HostSession(env.HOST, request.headers.get("x-iterate-invocation") ?? "");
    const scope: Scope = { ordinal, contextPath, callerPath, session, logAllowance: logBytes };
    switch (operation) {
      case "describe":
        return frames(scope, describeBundle());
      case "process-batch":
        return frames(scope, processBatch(head, request));
      case "fetch":
        return scopes.run(scope, () => handleFetch(request, runtime));
      default:
        return new Response(`unknown operation ${operation}`, { status: 400 });
    }
  },
};

function headOf(request: Request): InvocationHead {
  return JSON.parse(Buffer.from(request.headers.get("x-iterate-scope") ?? "", "base64url").toString()) as InvocationHead;
}

/**
 * The values of `source` as lines: `f` and JSON for each, then `d` for the end or `e` and JSON for what was thrown. Each line waits
 * until the one before is taken, and the generator runs in the invocation's scope.
 */
function frames(scope: Scope, source: AsyncGenerator<unknown>): Response {
  const encoder = new TextEncoder();
  const line = (mark: string, value?: unknown) => encoder.encode(`${mark}${value === undefined ? "" : JSON.stringify(value)}\n`);
  const finish = (controller: ReadableStreamDefaultController<Uint8Array>, last: Uint8Array) => {
    scope.session.close();
    recordsDrained(scope.ordinal);
    controller.enqueue(last);
    controller.close();
  };
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await scopes.run(scope, () => source.next());
        if (done === true) finish(controller, line("d"));
        else controller.enqueue(line("f", value));
      } catch (thrown) {
        finish(controller, line("e", failureOf(thrown)));
      }
    },
    cancel: () => scope.session.close(),
  });
  return new Response(body);
}
