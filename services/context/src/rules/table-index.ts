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
  stepsOf,
  type Expression,
  type MatchRest,
  type TargetHoles,
} from "iterate/expression";
import type { RuleRow, RuleTable } from "./contract.js";

/** A row and what is known of it before any call. */
export interface IndexedRow {
  readonly row: RuleRow;
  readonly pins: number;
  /** Arguments that the last step of the match pins. */
  readonly lastPins: number;
  /** `null` for a mask. */
  readonly holes: TargetHoles | null;
}

export interface Found {
  readonly row: IndexedRow;
  readonly rest: MatchRest;
}

interface Node {
  readonly children: Map<string, Node>;
  /** Those that end here, most pinned first. */
  readonly rows: IndexedRow[];
}

export class TableIndex {
  readonly #top: Node = newNode();

  constructor(table: RuleTable) {
    for (const row of Object.values(table)) this.#add(row);
  }

  /** The row whose match is just `itx`. */
  get bare(): IndexedRow | undefined {
    return this.#top.rows[0];
  }

  /** The longest match of at least one step; of equally long ones, that which pins most arguments. */
  find(expression: Expression): Found | undefined {
    const ends: Node[] = [];
    let node: Node | undefined = this.#top;
    for (let index = 1; index < expression.length; index += 1) {
      node = node.children.get(nameOf(expression[index]!));
      if (node === undefined) break;
      if (node.rows.length > 0) ends.push(node);
    }
    for (const { rows } of ends.reverse()) {
      for (const row of rows) {
        const rest = matchExpression(row.row.match, expression);
        if (rest !== null) return { row, rest };
      }
    }
    return undefined;
  }

  #add(row: RuleRow): void {
    let node = this.#top;
    for (const step of stepsOf(row.match)) {
      const name = nameOf(step);
      let child = node.children.get(name);
      if (child === undefined) node.children.set(name, (child = newNode()));
      node = child;
    }
    const last = row.match.length === 1 ? undefined : row.match.at(-1);
    node.rows.push({
      row,
      pins: pinnedArgs(row.match),
      lastPins: last === undefined ? 0 : (argsOf(last)?.length ?? 0),
      holes: row.target === null ? null : holesOf(row.target),
    });
    node.rows.sort((one, other) => other.pins - one.pins);
  }
}

function newNode(): Node {
  return { children: new Map(), rows: [] };
}

const indexes = new WeakMap<RuleTable, TableIndex>();

export function indexOf(table: RuleTable): TableIndex {
  let index = indexes.get(table);
  if (index === undefined) indexes.set(table, (index = new TableIndex(table)));
  return index;
}
