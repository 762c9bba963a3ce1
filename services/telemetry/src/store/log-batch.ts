/** Log records that wait. */
import type { Statement } from "@iterate-platform/service/postgres";
import { Batch } from "./batch.js";
import { Column } from "./column.js";
import { insertLogRecords } from "./insert.sql.js";

/** As stored; the order is that of severity. */
export const severities = ["debug", "info", "warn", "error"] as const;
export type Severity = (typeof severities)[number];

export interface LogRow {
  /** Empty when the record names none. */
  readonly owner: string;
  readonly atUs: bigint;
  /** The request it came in, and its place there. */
  readonly export: bigint;
  readonly ordinal: number;
  readonly severity: Severity;
  /** The context it is about; empty when it names none. */
  readonly path: string;
  readonly service: string;
  /** Null when it was written outside a span. */
  readonly span: { readonly traceId: Uint8Array; readonly spanId: bigint } | null;
  readonly body: string;
  /** A JSON object. */
  readonly attributes: string;
}

export class LogBatch extends Batch {
  readonly #owner = new Column("text");
  readonly #atUs = new Column("int8");
  readonly #export = new Column("int8");
  readonly #ordinal = new Column("int4");
  readonly #severity = new Column("int2");
  readonly #path = new Column("text");
  readonly #service = new Column("text");
  readonly #traceId = new Column("uuid");
  readonly #spanId = new Column("int8");
  readonly #body = new Column("text");
  readonly #attributes = new Column("text");
  /** In the order of the statement's parameters. */
  protected readonly columns = [
    this.#owner,
    this.#atUs,
    this.#export,
    this.#ordinal,
    this.#severity,
    this.#path,
    this.#service,
    this.#traceId,
    this.#spanId,
    this.#body,
    this.#attributes,
  ];

  add(row: LogRow): void {
    this.#owner.text(row.owner);
    this.#atUs.int8(row.atUs);
    this.#export.int8(row.export);
    this.#ordinal.int4(row.ordinal);
    this.#severity.int2(severities.indexOf(row.severity));
    this.#path.text(row.path);
    this.#service.text(row.service);
    if (row.span === null) {
      this.#traceId.null();
      this.#spanId.null();
    } else {
      this.#traceId.uuid(row.span.traceId);
      this.#spanId.int8(row.span.spanId);
    }
    this.#body.text(row.body);
    this.#attributes.text(row.attributes);
    this.rows += 1;
  }

  statement(): Statement {
    return { name: "insert_log_records", text: insertLogRecords, values: this.columns.map((column) => column.parameter()) };
  }
}
