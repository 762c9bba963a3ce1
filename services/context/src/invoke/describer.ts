/**
 * Says of anything addressable what it is and how it is used: from the words its rule was given, from those of the builtin it stands for,
 * and from whether it answers now.
 */
import { Effect, type Method, type Root } from "@iterate-platform/proto/iterate/capability/v1/capability";
import { unknownMember } from "@iterate-platform/service/capability-calls";
import type { CapabilityState, DescribedEntry, DescribedMethod, DescribedRule, Description } from "iterate/api";
import {
  matchExpression,
  nameOf,
  pinnedArgs,
  printExpression,
  printTarget,
  toExpression,
  type Expression,
  type Step,
} from "iterate/expression";
import { codedError, errorCode, isCodedError, type CodedError } from "iterate/lib";
import { initialCore } from "../core/fold.js";
import { readableCore, type Heads } from "../log/confirm.js";
import type { ContextAddress } from "../log/contract.js";
import type { RuleRow, RuleTable } from "../rules/contract.js";
import { ruleTable } from "../rules/table.js";
import type { BuiltinCall } from "./contract.js";
import { withText } from "./description-text.js";
import { assertMaySpell } from "./invoker.js";
import type { LocalLogs } from "./local-log.js";
import type { RegisteredRoot, Registry } from "./registry.js";
import type { Resolved, Resolver } from "./resolver.js";

export interface DescriberParts {
  readonly registry: Registry;
  readonly resolver: Resolver;
  readonly heads: Heads;
  readonly logs: LocalLogs;
}

/** Who asks. */
export type DescribeCall = Pick<BuiltinCall, "callerPath" | "incoming">;

/** What became of an expression: where it ended, or why it did not. */
type Outcome =
  | { readonly kind: "resolved"; readonly resolved: Resolved; readonly found: RegisteredRoot }
  | { readonly kind: "refused"; readonly state: CapabilityState; readonly error: CodedError };

const contextSummary = "A context: a log of events, and what can be called at it.";
const contextInstructions =
  "Call what the entries name. Describe one of them to learn its methods, what they take and answer, and examples: " +
  'itx.describe("itx.append"). Whole expressions are answered in one call, and once a call has answered, names read properties of the ' +
  'answer: itx.whoami().path. itx.cd("/a").append(…) calls at another context of the project.';

export class Describer {
  readonly #parts: DescriberParts;

  constructor(parts: DescriberParts) {
    this.#parts = parts;
  }

  /**
   * @param asked what is described; `itx`, or nothing, is the context itself.
   * @throws CodedError NO_ITX_EXPRESSION_MATCH naming what was meant, perhaps, when no rule and no builtin has the name; NOT_A_METHOD for
   * a member that a builtin has not; UNAVAILABLE.
   */
  async describe(start: ContextAddress, asked: Expression, call: DescribeCall): Promise<Description> {
    return asked.length === 1 ? await this.#context(start, call) : await this.#capability(start, asked, call);
  }

  async #context(start: ContextAddress, call: DescribeCall): Promise<Description> {
    const table = await this.#tableOf(start);
    const isRoot = start.path === "/" || start.owner === "global";
    const asked = new Map<string, string>();
    for (const { words } of this.#parts.registry.all)
      if (isRoot || words.isContextRoot) asked.set(`itx.${words.name}`, words.description);
    for (const [match, { description }] of Object.entries(table)) {
      if (match === "itx") continue;
      asked.set(match, description ?? asked.get(match) ?? "");
    }
    const entries = await Promise.all(
      [...asked].sort(byName).map(([expression, summary]) => this.#entry(start, expression, summary, call)),
    );
    const bare = table["itx"];
    return withText({
      expression: "itx",
      path: start.path,
      state: "bound",
      summary: contextSummary,
      instructions: contextInstructions,
      types: "",
      methods: [],
      rules: bare === undefined ? [] : await this.#rules([{ address: start, row: bare }], call),
      entries,
      standsFor: null,
      mayCall: true,
      refusal: null,
    });
  }

  async #capability(start: ContextAddress, asked: Expression, call: DescribeCall): Promise<Description> {
    const table = await this.#tableOf(start);
    const outcome = await this.#outcome(start, asked, call);
    const row = rowFor(table, asked);
    const entries = await this.#entriesBelow(start, table, asked, call);
    if (outcome.kind === "refused" && row === undefined && outcome.state === "dangling" && entries.length === 0)
      throw outcome.error;
    const via = outcome.kind === "resolved" ? outcome.resolved.via : row === undefined ? [] : [{ address: start, row }];
    const members = outcome.kind === "resolved" ? membersAt(outcome.found.words, outcome.resolved.steps) : [];
    // The words of a builtin are about calls as it takes them: a rule that gives it arguments makes something else of it.
    const words = outcome.kind === "resolved" && members.length > 0 ? outcome.found.words : null;
    const given = via.map(({ row }) => row);
    const standsFor = outcome.kind === "resolved" ? standsForOf(outcome.resolved) : null;
    const refusal = refusalOf(asked, outcome, call);
    const said = [
      ...given.map(({ description }) => description),
      members.length === 1 ? members[0]!.description : words?.description,
    ];
    return withText({
      expression: printExpression(asked),
      path: start.path,
      state: outcome.kind === "resolved" ? "bound" : outcome.state,
      summary: said.find(isGiven) ?? "A rule that nobody has described.",
      instructions: [...given.map(({ instructions }) => instructions), words?.instructions].filter(isGiven).join("\n\n"),
      types: [given.map(({ types }) => types).find(isGiven), words?.types].filter(isGiven).join("\n"),
      methods: outcome.kind === "resolved" ? methodsFrom(members, outcome.resolved.steps, asked) : [],
      rules: await this.#rules(via, call),
      entries,
      standsFor,
      mayCall: refusal === null,
      refusal,
    });
  }

  async #outcome(start: ContextAddress, asked: Expression, { callerPath }: DescribeCall): Promise<Outcome> {
    try {
      const resolved = await this.#parts.resolver.resolve(start, asked, callerPath);
      const found = this.#parts.registry.find(resolved.root);
      if (found?.kind === "remote" && !found.provider.isAnswering)
        return { kind: "refused", state: "offline", error: codedError("UNAVAILABLE", `${found.provider.name} is away`) };
      if (found !== undefined) return { kind: "resolved", resolved, found };
      const error = codedError("NO_ITX_EXPRESSION_MATCH", `no service of this deployment answers itx.${resolved.root}`);
      return { kind: "refused", state: "dangling", error };
    } catch (thrown) {
      if (!isCodedError(thrown)) throw thrown;
      switch (errorCode(thrown)) {
        case "NO_ITX_EXPRESSION_MATCH":
          return { kind: "refused", state: "maskedBy" in thrown.data ? "masked" : "dangling", error: thrown };
        case "UNAVAILABLE":
          if (!("services" in thrown.data)) throw thrown;
          return { kind: "refused", state: "offline", error: thrown };
        case "INVALID_INPUT":
          // A rule whose holes take arguments, and a name without any: it answers the call that has them.
          return { kind: "refused", state: "bound", error: thrown };
        default:
          throw thrown;
      }
    }
  }

  async #entry(start: ContextAddress, expression: string, summary: string, call: DescribeCall): Promise<DescribedEntry> {
    const outcome = await this.#outcome(start, toExpression(expression), call);
    return { expression, summary, state: outcome.kind === "resolved" ? "bound" : outcome.state };
  }

  /** Rules about calls that begin with what is described and go on. */
  async #entriesBelow(start: ContextAddress, table: RuleTable, asked: Expression, call: DescribeCall): Promise<DescribedEntry[]> {
    const longer = Object.entries(table).filter(
      ([, { match }]) => match.length > asked.length && matchExpression(asked, match) !== null,
    );
    return await Promise.all(
      longer.sort(byName).map(([match, { description }]) => this.#entry(start, match, description ?? "", call)),
    );
  }

  async #tableOf(address: ContextAddress): Promise<RuleTable> {
    const head = await this.#parts.heads.confirm(address);
    return ruleTable(head === undefined ? initialCore : readableCore(head));
  }

  #rules(via: Resolved["via"], call: DescribeCall): Promise<DescribedRule[]> {
    return Promise.all(
      via.map(async ({ address, row: { match, target, description, configuredAtOffset } }) => ({
        path: address.path,
        match: printExpression(match),
        target: target === null ? null : printTarget(target),
        description: description ?? "",
        configuredAtOffset,
        by: await this.#writerOf(address, configuredAtOffset, call),
      })),
    );
  }

  async #writerOf(address: ContextAddress, offset: number, call: DescribeCall): Promise<DescribedRule["by"]> {
    try {
      const { events } = await this.#parts.logs.of(address, call.incoming, null).read({ afterOffset: offset - 1, limit: 1 });
      const source = events[0]?.offset === offset ? events[0].source : undefined;
      if (source === undefined) return null;
      return { origin: source.origin, principal: source.principal ?? null, isPlatform: source.platform === true };
    } catch (error) {
      if (errorCode(error) === "OFFSET_TRUNCATED") return null;
      throw error;
    }
  }
}

/** The row that decides about calls that begin like `asked`: of equally long ones the one that pins most. */
function rowFor(table: RuleTable, asked: Expression): RuleRow | undefined {
  let best: RuleRow | undefined;
  for (const row of Object.values(table)) {
    if (row.match.length === 1 || matchExpression(row.match, asked) === null) continue;
    const isBetter =
      best === undefined ||
      row.match.length > best.match.length ||
      (row.match.length === best.match.length && pinnedArgs(row.match) > pinnedArgs(best.match));
    if (isBetter) best = row;
  }
  return best;
}

/** Names a path as methods have it: `kv.get`, `facets.get()`. */
function pathOf(steps: readonly Step[]): string {
  return steps.map((step) => (typeof step === "string" ? step : `${step[0]}()`)).join(".");
}

/**
 * The methods at and below the place that steps lead to. A rule that gives a method its arguments leaves only those of the handle it
 * answers. Throws NOT_A_METHOD when the root has no such place.
 */
function membersAt({ name, methods }: Root, steps: readonly Step[]): Method[] {
  const path = pathOf(steps);
  const found = methods.filter((method) => method.path === path || method.path.startsWith(`${path}.`));
  if (found.length > 0 || typeof steps.at(-1) !== "string") return found;
  const before = pathOf(steps.slice(0, -1));
  const known = methods.flatMap((method) =>
    method.path.startsWith(`${before}.`) ? [method.path.slice(before.length + 1).split(/[.(]/)[0]!] : [],
  );
  throw unknownMember(before === "" ? "itx" : `itx.${before}`, nameOf(steps.at(-1) ?? name), [...new Set(known)]);
}

function standsForOf({ address, steps }: Resolved): Description["standsFor"] {
  return { path: address.path, expression: printExpression(["itx", "builtins", ...steps]) };
}

/** The builtin's methods by the names they have here. */
function methodsFrom(members: readonly Method[], steps: readonly Step[], asked: Expression): DescribedMethod[] {
  const there = pathOf(steps);
  const here = printExpression(asked);
  return members.map(({ path, signature, description, example, effect }) => ({
    call: here + path.slice(there.length),
    signature,
    description,
    example: example.replace(`itx.${there}`, here),
    effect: effect === Effect.EFFECT_WRITE ? "write" : "read",
  }));
}

function refusalOf(asked: Expression, outcome: Outcome, { incoming: { caller } }: DescribeCall): Description["refusal"] {
  try {
    assertMaySpell(asked, caller);
  } catch (error) {
    return { code: errorCode(error), message: (error as Error).message };
  }
  if (outcome.kind === "resolved" || outcome.state === "bound") return null;
  return { code: errorCode(outcome.error), message: outcome.error.message };
}

function isGiven(text: string | null | undefined): text is string {
  return text !== null && text !== undefined && text !== "";
}

function byName([one]: readonly [string, ...unknown[]], [other]: readonly [string, ...unknown[]]): number {
  return one < other ? -1 : 1;
}
