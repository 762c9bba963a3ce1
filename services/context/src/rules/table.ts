/** The table of rules of a context as calls and people see it: its own rows, and the published code as the row `itx.config`. */
import type { ConfigState } from "../core/contract.js";
import type { RuleRow, RulesState, RuleTable } from "./contract.js";
import { rowsOf } from "./groups.js";

const configMatch = "itx.config";

const tables = new WeakMap<RuleTable, { readonly config: ConfigState; readonly table: RuleTable }>();

/** The same object as long as neither changes: what is made ready for calls is made once. */
export function ruleTable({ rules, config }: { readonly rules: RulesState; readonly config: ConfigState | null }): RuleTable {
  const rows = rowsOf(rules);
  if (config === null) return rows;
  let held = tables.get(rows);
  if (held?.config !== config) {
    held = { config, table: { ...rows, [configMatch]: configRow(config) } };
    tables.set(rows, held);
  }
  return held.table;
}

function configRow({ configuredAtOffset, digest, generation, modules, mainModule, repo, commitOid }: ConfigState): RuleRow {
  const source = { repo, commit: commitOid };
  const members = modules.map(({ file, module, identity, classes }) => ({ file, module, identity, classes }));
  return {
    match: ["itx", "config"],
    target: ["itx", "builtins", "workers", ["get", { source, digest, generation, modules: members, mainModule }]],
    description: "The published code of the project.",
    instructions: null,
    types: null,
    configuredAtOffset,
  };
}
