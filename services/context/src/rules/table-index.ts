/**
 * A rule table made ready for calls: rows by the names of their matches, so that a call looks at those alone that begin as it does,
 * however long the table is. Made once for each state of a table.
 */
import {
  argsOf,
  holesOf,
  matchExpression,
  nameOf,
  pinnedArgs,
  type Expression,
  type MatchRest,
  type TargetHoles,
} from "iterate/expression";
import type { RuleRow, RuleTable } from "./contract.js";

/** What is known of a row before any call. */
export interface RowForm {
  readonly pins: number;
  /** Arguments that the last step of the match pins. */
  readonly lastPins: number;
  /** `null` for a mask. */
  readonly holes: TargetHoles | null;
}

/** A row keeps its form in every table it is in: one that changes makes no other be looked at again. */
const forms = new WeakMap<RuleRow, RowForm>();

export function formOf(row: RuleRow): RowForm {
  let form = forms.get(row);
  if (form === undefined) forms.set(row, (form = newForm(row)));
  return form;
}

function newForm({ match, target }: RuleRow): RowForm {
  const last = match.length === 1 ? undefined : match.at(-1);
  return {
    pins: pinnedArgs(match),
    lastPins: last === undefined ? 0 : (argsOf(last)?.length ?? 0),
    holes: target === null ? null : holesOf(target),
  };
}

export interface Found {
  readonly row: RuleRow;
  readonly rest: MatchRest;
}

interface Node {
  /** By name; `null` while there are none. */
  children: Map<string, Node> | null;
  /** Those that end here, most pinned first. */
  readonly rows: RuleRow[];
}

export class TableIndex {
  readonly #top: Node = newNode();

  constructor(table: RuleTable) {
    const shared = new Set<Node>();
    for (const row of Object.values(table)) {
      const node = this.#nodeOf(row.match);
      node.rows.push(row);
      if (node.rows.length > 1) shared.add(node);
    }
    for (const { rows } of shared) rows.sort((one, other) => formOf(other).pins - formOf(one).pins);
  }

  /** The row whose match is just `itx`. */
  get bare(): RuleRow | undefined {
    return this.#top.rows[0];
  }

  /** The longest match of at least one step; of equally long ones, that which pins most arguments. */
  find(expression: Expression): Found | undefined {
    const ends: Node[] = [];
    let node: Node | undefined = this.#top;
    for (let index = 1; index < expression.length; index += 1) {
      node = node.children?.get(nameOf(expression[index]!));
      if (node === undefined) break;
      if (node.rows.length > 0) ends.push(node);
    }
    for (const { rows } of ends.reverse()) {
      for (const row of rows) {
        const rest = matchExpression(row.match, expression);
        if (rest !== null) return { row, rest };
      }
    }
    return undefined;
  }

  #nodeOf(match: Expression): Node {
    let node = this.#top;
    for (let index = 1; index < match.length; index += 1) {
      const name = nameOf(match[index]!);
      const children = (node.children ??= new Map<string, Node>());
      let child = children.get(name);
      if (child === undefined) children.set(name, (child = newNode()));
      node = child;
    }
    return node;
  }
}

function newNode(): Node {
  return { children: null, rows: [] };
}

const indexes = new WeakMap<RuleTable, TableIndex>();

export function indexOf(table: RuleTable): TableIndex {
  let index = indexes.get(table);
  if (index === undefined) indexes.set(table, (index = new TableIndex(table)));
  return index;
}
