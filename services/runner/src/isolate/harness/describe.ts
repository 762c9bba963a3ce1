/** What a bundle offers, found by constructing its classes: the probe of a publication and the answer to "what is in here". */
import { construct, isClass, mainExport, type ProjectClass } from "./project-class.js";
import { entries } from "./entries.js";

interface ContractLike {
  readonly slug?: unknown;
  readonly version?: unknown;
  readonly description?: unknown;
  readonly consumes?: unknown;
  readonly emits?: unknown;
}

/** One frame `{entryPoint, exports}`; throws what a constructor throws. */
export async function* describeBundle(): AsyncGenerator<unknown> {
  const entryPoint = mainExport();
  if (isClass(entryPoint)) construct(entryPoint);
  yield {
    entryPoint: entryPoint === undefined ? null : { isClass: isClass(entryPoint), hasFetch: hasMethod(entryPoint, "fetch"), hasProcessEvent: hasMethod(entryPoint, "processEvent") },
    exports: [...entries].flatMap(([module, namespace]) => Object.entries(namespace).map(([name, value]) => describeExport(module, name, value))),
  };
}

function describeExport(module: string, name: string, value: unknown): unknown {
  if (!isClass(value) || !hasMethod(value, "processEventBatch")) return { module, name, kind: isClass(value) ? "class" : typeof value };
  const { slug, version, description, consumes, emits } = contractOf(value);
  return { module, name, kind: "processor", contract: { slug, version, description, consumes, emits } };
}

function contractOf(processorClass: ProjectClass): ContractLike {
  const instance = construct(processorClass) as { processor?: { contract?: ContractLike } };
  return instance.processor?.contract ?? {};
}

function hasMethod(value: unknown, name: string): boolean {
  return isClass(value) && typeof (value.prototype as Record<string, unknown>)[name] === "function";
}
