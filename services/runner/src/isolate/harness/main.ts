/**
 * The worker that workerd runs: it takes the supervisor's requests and hands them to the project's code, each inside its own scope.
 * The order of the imports is the order of evaluation: console, fetch and the SDK's global are in place before the project loads.
 * Nothing here is trusted by the supervisor, because the project's code shares its realm.
 */
import "./console.js";
import "./egress.js";
import { describeBundle } from "./describe.js";
import { answerFrames } from "./frames.js";
import type { InvocationHead, WaitUntil } from "./head.js";
import { HostSession, type HostBinding } from "./host-session.js";
import { processBatch } from "./process-batch.js";
import { handleFetch } from "./handle-fetch.js";
import { recordsDrained } from "./console.js";
import { scopes, type Scope } from "./scope.js";

interface WorkerEnv {
  readonly HOST: HostBinding;
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
    const scope: Scope = { ordinal, contextPath, callerPath, session, logAllowance: logBytes, hasLogged: false };
    switch (operation) {
      case "describe":
        return answerFrames(scope, describeBundle());
      case "process-batch":
        return answerFrames(scope, processBatch(head, request));
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
