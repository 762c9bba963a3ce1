/** What a bundle offers, found by constructing its classes: the probe of a publication and the answer to "what is in here". */
import { construct, isClass, mainExport } from "./project-class.js";
import { entries } from "./entries.js";

/** One frame `{entryPoint, exports}`; throws what a constructor throws. */
export async function* describeBundle(): AsyncGenerator<unknown> {
  const entryPoint = mainExport();
  if (isClass(entryPoint)) construct(entryPoint);
  yield {
    entryPoint:
      entryPoint === undefined
        ? null
        : {
            isClass: isClass(entryPoint),
            hasFetch: hasMethod(entryPoint, "fetch"),
            hasProcessEvent: hasMethod(entryPoint, "processEvent"),
          },
    exports: [...entries].flatMap(([module, namespace]) =>
      Object.entries(namespace).map(([name, value]) => describeExport(module, name, value)),
    ),
  };
}

function describeExport(module: string, name: string, value: unknown): unknown {
  if (!isClass(value) || !hasMethod(value, "processEventBatch"))
    return { module, name, kind: isClass(value) ? "class" : typeof value };
  const instance = construct(value) as { describe?: () => unknown };
  return { module, name, kind: "processor", contract: instance.describe?.() };
}

function hasMethod(value: unknown, name: string): boolean {
  return isClass(value) && typeof (value.prototype as Record<string, unknown>)[name] === "function";
}
