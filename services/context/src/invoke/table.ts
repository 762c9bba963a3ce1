/** The capability table of a context as calls are resolved by it. */
import type { CoreState } from "../core/contract.js";
import type { RuleTable } from "../rules/contract.js";
import { ruleTable } from "../rules/table.js";

export function tableOf(core: CoreState): RuleTable {
  return ruleTable(core);
}
