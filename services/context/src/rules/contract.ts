/**
 * The capability table of a context: rewrite rules, each of which says what an expression that begins with its match stands for. Calls
 * are rewritten until they start at `itx.builtins`, the fixed point; what no rule and no builtin answers is denied.
 */
import type { Expression, Step } from "iterate/expression";

/** One rule. */
export interface RuleRow {
  /** What a call begins with. */
  readonly match: Expression;
  /** What it stands for, holes included; `null` masks what would answer beneath. */
  readonly target: Expression | null;
  /** One line for lists. */
  readonly description: string | null;
  /** How it is used, in prose. */
  readonly instructions: string | null;
  /** What it takes and answers, as TypeScript declarations. */
  readonly types: string | null;
  /** Offset of the event that set it. */
  readonly configuredAtOffset: number;
}

/** Rows by the printed form of their match. */
export type RuleTable = Readonly<Record<string, RuleRow>>;

/** The rules of a context, in groups by their match: a commit stores the groups it changed, not the table. */
export interface RulesState {
  /** By number; one without rows may be absent. */
  readonly groups: Readonly<Record<string, RuleGroup>>;
  /** Matches whose rows go when the context is resumed. */
  readonly held: readonly string[];
}

export interface RuleGroup {
  readonly rows: RuleTable;
  /** Of the rows, as they count against what a context may hold. */
  readonly bytes: number;
}

/** The names under `itx.builtins` that something answers. */
export interface Roots {
  has(name: string): boolean;
  /** Whether every context answers the name by itself, not the root of its project alone. */
  isContextRoot(name: string): boolean;
}

export interface ResolveInput {
  readonly table: RuleTable;
  readonly roots: Roots;
  /** True where every root is answered without a rule: in the root of a project, and everywhere in `global`. */
  readonly isRoot: boolean;
  readonly expression: Expression;
  /** Path of the context the call started at: what `@caller` stands for. */
  readonly caller: string;
}

/** What an expression stands for. */
export type Resolution =
  | {
      readonly kind: "builtin";
      readonly root: string;
      /** From the root's own step on. */
      readonly steps: readonly Step[];
      /** The rows it went through, first to last. Implicit ones are no rows. */
      readonly via: readonly RuleRow[];
    }
  | {
      /** It goes on in another context, by the rules there. */
      readonly kind: "context";
      /** As the expression says it: absolute, or to be resolved against this context's path. */
      readonly path: string;
      readonly expression: Expression;
      readonly via: readonly RuleRow[];
    };

/** Bounds of a call through a table; those of a table are `ruleLimits` of its events. */
export const resolutionLimits = {
  /** A call goes through fewer rules of one context than this. */
  depth: 32,
  /** What rules may make of the arguments of one call, in characters of JSON. */
  filledChars: 8_388_608,
} as const;
