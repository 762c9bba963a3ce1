/** Rows that are stored together by one statement, in columns. Each signal has its own. */
import type { Statement } from "@iterate-platform/service/postgres";
import type { Column, ColumnMark } from "./column.js";

export interface BatchMark {
  readonly rows: number;
  readonly columns: readonly ColumnMark[];
}

export abstract class Batch {
  /** Spans or records in it. */
  rows = 0;
  protected abstract readonly columns: readonly Column[];

  get bytes(): number {
    let bytes = 0;
    for (const column of this.columns) bytes += column.bytes;
    return bytes;
  }

  mark(): BatchMark {
    return { rows: this.rows, columns: this.columns.map((column) => column.mark()) };
  }

  /** Forgets the rows added after the mark. */
  rewind(mark: BatchMark): void {
    this.rows = mark.rows;
    this.columns.forEach((column, index) => column.rewind(mark.columns[index]!));
  }

  /** Stores all rows, once however often it is executed. */
  abstract statement(): Statement;
}
