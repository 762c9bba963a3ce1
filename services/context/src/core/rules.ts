/**
 * The rules of a context. A rule with a target replaces the one of the same match. One without a target masks what would answer beneath
 * it, or where nothing would, takes its row away; so does one that says what an implicit rule says already. A removal that names the
 * target it means is a handle being let go: it lands in a paused context too, and is carried out when that is resumed.
 */
import { itx } from "iterate/events";
import {
  argsOf,
  isSameExpression,
  matchExpression,
  nameOf,
  printExpression,
  startsAtBuiltins,
  stepsOf,
  type Expression,
  type Step,
} from "iterate/expression";
import { codedError, resolveContextPath } from "iterate/lib";
import type { z } from "zod";
import type { RuleRow, RulesState } from "../rules/contract.js";
import { noRules, rowOf, rowsOf, sizeOf, withRow } from "../rules/groups.js";
import { vocabularyOfRoots } from "../rules/roots.js";
import type { ControlEvent, CoreState, IdentityState } from "./contract.js";
import type { Reducer } from "./reducer.js";

type Configured = z.infer<typeof itx.rewriteRuleConfigured.payload>;

const { perContext, bytesPerContext } = itx.ruleLimits;

/** The printed match of the row that stands for everything. */
const bareKey = "itx";

export const rules: Reducer<RulesState> = {
  initial: noRules,
  types: [itx.rewriteRuleConfigured.type, itx.resumed.type],

  reduce(state, event, core) {
    if (event.type === itx.resumed.type) return released(state);
    const rule = event.payload as Configured;
    if (itx.isConfigMatch(rule.match)) return state;
    if (rule.ifTarget !== undefined) return letGo(state, rule, rule.ifTarget, core);
    return configured(state, rule, event.offset, core);
  },

  check(state, event, core) {
    if (event.type === itx.resumed.type) return;
    const rule = event.payload as Configured;
    if (itx.isConfigMatch(rule.match)) return;
    checkOtherContext(rule, core.identity);
    checkRoom(state, rules.reduce(state, event, core));
  },

  parts: {
    split: ({ groups, held }) => ({ ...groups, held }),
    join: ({ held = [], ...groups }) => ({ groups, held }) as RulesState,
  },
};

/** Whether a rule event is a removal that a paused context takes and holds. */
export function isHeldRemoval({ type, payload }: Omit<ControlEvent, "offset">): boolean {
  return type === itx.rewriteRuleConfigured.type && (payload as Configured).ifTarget !== undefined;
}

/** Whether the context masks everything that its own rows do not grant. */
export function isJail(state: RulesState): boolean {
  return rowOf(state, bareKey)?.target === null;
}

/** Where every root is answered without a rule: in the root of a project, and everywhere in `global`. */
export function answersAllRoots(identity: IdentityState | null): boolean {
  return identity !== null && (identity.path === "/" || identity.owner === "global");
}

function configured(state: RulesState, rule: Configured, offset: number, { identity }: CoreState): RulesState {
  const { match, target, description, instructions, types } = rule;
  const key = printExpression(match);
  const before = rowOf(state, key);
  const isNeeded =
    target === null ? isAnsweredBeneath(state, match, identity) : isJail(state) || !isImplicitRule(match, target, identity);
  if (!isNeeded) return before === undefined ? state : withRow(state, key, null);
  const row: RuleRow = {
    match,
    target,
    description: description ?? null,
    instructions: instructions ?? null,
    types: types ?? null,
    configuredAtOffset: offset,
  };
  return before !== undefined && isSameRule(before, row) ? state : withRow(state, key, row);
}

/** Another rule may have come in the place of the one that is let go; that one stays. */
function letGo(state: RulesState, { match }: Configured, ifTarget: Expression, { pause }: CoreState): RulesState {
  const key = printExpression(match);
  const before = rowOf(state, key);
  if (before?.target == null || !isSameExpression(before.target, ifTarget)) return state;
  if (pause === null) return withRow(state, key, null);
  return state.held.includes(key) ? state : { ...state, held: [...state.held, key] };
}

/** While the context was paused nothing came in the place of the rows. */
function released(state: RulesState): RulesState {
  if (state.held.length === 0) return state;
  return { ...state.held.reduce((left, key) => withRow(left, key, null), state), held: [] };
}

/** Whether a call that begins with `match` would be answered if `match` had no row. */
function isAnsweredBeneath(state: RulesState, match: Expression, identity: IdentityState | null): boolean {
  if (!isJail(state) && (match.length === 1 || isImplicitRoot(nameOf(match[1] as Step), identity))) return true;
  if (match.length === 1) return true;
  return Object.values(rowsOf(state)).some(
    ({ match: other, target }) => target !== null && matchExpression(other, match) !== null && !isSameExpression(other, match),
  );
}

function isImplicitRoot(name: string, identity: IdentityState | null): boolean {
  return vocabularyOfRoots.has(name) && (answersAllRoots(identity) || vocabularyOfRoots.isContextRoot(name));
}

function isImplicitRule(match: Expression, target: Expression, identity: IdentityState | null): boolean {
  const [name, ...longer] = stepsOf(match);
  if (typeof name !== "string" || longer.length > 0 || !isImplicitRoot(name, identity)) return false;
  return isSameExpression(target, ["itx", "builtins", name]);
}

function isSameRule(one: RuleRow, other: RuleRow): boolean {
  if (one.description !== other.description || one.instructions !== other.instructions || one.types !== other.types) return false;
  if (one.target === null || other.target === null) return one.target === other.target;
  return isSameExpression(one.target, other.target);
}

/** A row for everything that leads back to where it stands answers nothing, and hides that nothing answers. */
function checkOtherContext({ match, target }: Configured, identity: IdentityState | null): void {
  if (match.length !== 1 || target === null || !leadsBack(target, identity)) return;
  throw codedError("INVALID_INPUT", "the rule for itx would lead back to its own context; name another", {
    field: "payload.target",
  });
}

function leadsBack(target: Expression, identity: IdentityState | null): boolean {
  const [first, ...more] = startsAtBuiltins(target) ? stepsOf(target).slice(1) : stepsOf(target);
  if (first === undefined) return true;
  if (more.length > 0 || nameOf(first) !== "cd" || identity === null) return false;
  const path = argsOf(first)?.[0];
  return typeof path === "string" && resolveContextPath(identity.path, path) === identity.path;
}

function checkRoom(before: RulesState, after: RulesState): void {
  if (after === before) return;
  const [had, has] = [sizeOf(before), sizeOf(after)];
  if (has.rows > had.rows && has.rows > perContext)
    throw codedError("INVALID_INPUT", `the context has ${perContext} rules already; take one away before adding another`, {
      limit: perContext,
    });
  if (has.bytes > had.bytes && has.bytes > bytesPerContext)
    throw codedError(
      "INVALID_INPUT",
      `the rules of the context would take ${has.bytes} bytes; at most ${bytesPerContext} are kept`,
      {
        limit: bytesPerContext,
        bytes: has.bytes,
      },
    );
}
