/** Finds and constructs the classes that the project exports. */
import { entries, mainModule } from "./entries.js";
import type { WaitUntil } from "./head.js";

export type ProjectClass = new (runtime: unknown, env: unknown) => object;

/** @throws NOT_FOUND when the module is no entry of the bundle or exports no class of that name. */
export function exported(module: string, name: string): ProjectClass {
  const value = entries.get(module)?.[name];
  if (isClass(value)) return value;
  throw Object.assign(new Error(`The bundle exports no class ${name} from ${module}.`), { code: "NOT_FOUND" });
}

/** The default export of the main module; `undefined` when the bundle has no main module or it has no default export. */
export function mainExport(): unknown {
  return mainModule === undefined ? undefined : entries.get(mainModule)?.["default"];
}

/** A class gets no binding: what it may do, it does through `itx`. */
export function construct(projectClass: ProjectClass, runtime: WaitUntil = { waitUntil: () => undefined }): object {
  const context = {
    props: {},
    waitUntil: (work: Promise<unknown>) => runtime.waitUntil(work),
    passThroughOnException: () => undefined,
  };
  return new projectClass(context, {});
}

export function isClass(value: unknown): value is ProjectClass {
  return typeof value === "function" && typeof value.prototype === "object" && value.prototype !== null;
}
