/** The table of rules in groups, so that a commit stores a sixteenth of it for a rule that changes. */
import { utf8Length } from "iterate/lib";
import type { RuleGroup, RuleRow, RulesState, RuleTable } from "./contract.js";

const groups = 16;

const noRows: RuleGroup = { rows: {}, bytes: 0 };

export const noRules: RulesState = { groups: {}, held: [] };

export function rowOf({ groups: held }: RulesState, key: string): RuleRow | undefined {
  const rows = held[groupOf(key)]?.rows;
  return rows !== undefined && Object.hasOwn(rows, key) ? rows[key] : undefined;
}

/** `state` with `row` under `key`, or without any there. */
export function withRow(state: RulesState, key: string, row: RuleRow | null): RulesState {
  const name = groupOf(key);
  const group = state.groups[name] ?? noRows;
  const { [key]: before, ...others } = group.rows;
  const bytes = group.bytes - bytesOf(before) + bytesOf(row ?? undefined);
  const rows = row === null ? others : { ...group.rows, [key]: row };
  return { ...state, groups: { ...state.groups, [name]: { rows, bytes } } };
}

export interface TableSize {
  readonly rows: number;
  readonly bytes: number;
}

export function sizeOf({ groups: held }: RulesState): TableSize {
  const size = { rows: 0, bytes: 0 };
  for (const { rows, bytes } of Object.values(held)) {
    size.rows += Object.keys(rows).length;
    size.bytes += bytes;
  }
  return size;
}

const tables = new WeakMap<RulesState["groups"], RuleTable>();

/** All rows as one table; the same object for the same state. */
export function rowsOf({ groups: held }: RulesState): RuleTable {
  let table = tables.get(held);
  if (table === undefined) {
    table = Object.assign({}, ...Object.values(held).map(({ rows }) => rows)) as RuleTable;
    tables.set(held, table);
  }
  return table;
}

/** What a row counts: all of it but where it came from. */
function bytesOf(row: RuleRow | undefined): number {
  if (row === undefined) return 0;
  const { configuredAtOffset: _, ...counted } = row;
  return utf8Length(JSON.stringify(counted));
}

/** FNV-1a, folded to the number of groups: part of what is stored, so a change of it is a change of the reducer's version. */
function groupOf(key: string): string {
  let hash = 0x811c9dc5;
  for (let index = 0; index < key.length; index += 1) hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193);
  return String((hash >>> 8) % groups);
}
