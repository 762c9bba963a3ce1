/** Builds the `itx` surface on the one door out of the isolate. Every name it does not have rejects with NOT_A_METHOD when called. */
import type { FacetHandle, Itx, ItxMethods, ItxRoot } from "../api/itx.js";
import { codedError, toCodedError } from "../lib/coded-error.js";
import { resolveContextPath } from "../lib/context-path.js";

/** Ends with its `using` block, and with it every scope made from it. */
interface Scope {
  readonly parent: Scope | null;
  ended: boolean;
}

/** A fresh scope on the context `path`. */
export function openItx(root: ItxRoot, path: string): Itx {
  return itxAt(root, path, { parent: null, ended: false });
}

function itxAt(root: ItxRoot, path: string, scope: Scope): Itx {
  const call = async <M extends keyof ItxMethods>(method: M, ...args: ItxMethods[M]): Promise<never> => {
    if (hasEnded(scope))
      throw codedError(
        "CANCELLED",
        `itx.${method} was called after its scope ended; call getItx() again, in the block that needs it`,
      );
    try {
      // The host answers the method's own result; whoever wrote the method's type knows it.
      return (await root.hostCall(method, args, path)) as never;
    } catch (thrown) {
      throw toCodedError(thrown);
    }
  };
  const facet = (name: string): FacetHandle =>
    closed(`itx.facets.get(${JSON.stringify(name)})`, {
      snapshot: () => call("facets.snapshot", name),
      waitUntilProcessed: (args) => call("facets.waitUntilProcessed", name, args),
    });
  return closed<Itx>("itx", {
    whoami: () => call("whoami"),
    append: (...events) => call("append", ...events),
    readEvents: (args) => (args === undefined ? call("readEvents") : call("readEvents", args)),
    waitForEvent: (args) => call("waitForEvent", args),
    invoke: (expression, ...args) => call("invoke", expression, ...args),
    describe: (expression) => (expression === undefined ? call("describe") : call("describe", expression)),
    cd: (to) => itxAt(root, resolveContextPath(path, to), { parent: scope, ended: false }),
    facets: closed("itx.facets", { get: facet }),
    [Symbol.dispose]: () => {
      scope.ended = true;
    },
  });
}

function hasEnded(scope: Scope): boolean {
  return scope.ended || (scope.parent !== null && hasEnded(scope.parent));
}

/** `surface` with nothing else on it: any other name is a callable that rejects, at any depth, and says which name it was. */
function closed<T extends object>(name: string, surface: T): T {
  return new Proxy(Object.freeze(surface), {
    get(target, key) {
      // Absent, or awaiting and printing the handle would call them: `then`, `toJSON`.
      if (typeof key === "symbol" || key === "then" || key === "toJSON" || Object.hasOwn(target, key))
        return Reflect.get(target, key);
      return missing(`${name}.${key}`);
    },
  });
}

function missing(name: string): unknown {
  const refuse = (): Promise<never> =>
    Promise.reject(codedError("NOT_A_METHOD", `${name} is not a method of this platform`, { name }));
  return new Proxy(refuse, {
    get(_target, key) {
      if (typeof key === "symbol") return undefined;
      // `await itx.name` rejects too, rather than answering this proxy.
      return key === "then"
        ? (onFulfilled: never, onRejected: never) => refuse().then(onFulfilled, onRejected)
        : missing(`${name}.${key}`);
    },
  });
}
