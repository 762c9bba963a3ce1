/** Finds the invocation that the running code belongs to. */
import { isolateGlobal, type IsolateHost, type IsolateInvocation } from "../api/itx.js";
import { codedError } from "../lib/coded-error.js";

/** Throws INTERNAL where no invocation is: outside the platform, or at a module's top level. */
export function currentInvocation(): IsolateInvocation {
  const host = (globalThis as unknown as Record<symbol, IsolateHost | undefined>)[Symbol.for(isolateGlobal)];
  if (host === undefined)
    throw codedError(
      "INTERNAL",
      "this code runs outside the platform, so it has no context; test a processor with iterate/stream/test-support",
    );
  return host.invocation();
}
