/** What a subscription's target means, read from its parsed expression. Never evaluated. */

export type Target =
  /** A processor of the platform, run in this process. */
  | { readonly kind: "native"; readonly name: string }
  /** A class of the project's published code, hosted under a facet name. `module` is a source file. */
  | { readonly kind: "facet"; readonly facet: string; readonly module: string; readonly className: string }
  /** Nothing this runner can deliver to. */
  | { readonly kind: "unknown" };

/** Reads the JSON of a target. Anything but the two known forms, exactly, is `unknown`. */
export function parseTarget(json: string): Target {
  let steps: unknown;
  try {
    steps = JSON.parse(json);
  } catch {
    return { kind: "unknown" };
  }
  if (!Array.isArray(steps) || steps[0] !== "itx") return { kind: "unknown" };
  return native(steps) ?? facet(steps) ?? { kind: "unknown" };
}

/** What keeps the state of a subscription with this target; another host starts without it. */
export function hostOf(target: Target): string {
  switch (target.kind) {
    case "native":
      return `native:${target.name}`;
    case "facet":
      return `facet:${target.facet}`;
    case "unknown":
      return "none";
  }
}

function native(steps: readonly unknown[]): Target | undefined {
  const [, builtins, processors, get, ...rest] = steps;
  if (builtins !== "builtins" || processors !== "processors" || rest.length > 0) return undefined;
  const [method, name, ...args] = Array.isArray(get) ? (get as unknown[]) : [];
  return method === "get" && isName(name) && args.length === 0 ? { kind: "native", name } : undefined;
}

function facet(steps: readonly unknown[]): Target | undefined {
  const [, facets, get, ...rest] = steps;
  if (facets !== "facets" || rest.length > 0) return undefined;
  const [method, name, spec, ...args] = Array.isArray(get) ? (get as unknown[]) : [];
  if (method !== "get" || !isName(name) || typeof spec !== "object" || spec === null || args.length > 0) return undefined;
  const { source, module, className } = spec as Record<string, unknown>;
  const isConfig = Array.isArray(source) && source.length === 2 && source[0] === "itx" && source[1] === "config";
  return isConfig && isName(module) && isName(className) ? { kind: "facet", facet: name, module, className } : undefined;
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= 1_024;
}
