/** Spans that wait, and their links. */
import type { Statement } from "@iterate-platform/service/postgres";
import { Batch } from "./batch.js";
import { Column } from "./column.js";
import { insertSpans } from "./insert.sql.js";

export interface LinkRow {
  readonly traceId: Uint8Array;
  readonly spanId: bigint;
}

export interface SpanRow {
  /** 16 bytes. */
  readonly traceId: Uint8Array;
  readonly spanId: bigint;
  /** 0 at the root. */
  readonly parentSpanId: bigint;
  readonly startUs: bigint;
  readonly durationUs: bigint;
  /** As OTLP numbers it. */
  readonly kind: number;
  readonly isError: boolean;
  /** Empty when the span names none. */
  readonly owner: string;
  readonly service: string;
  readonly name: string;
  readonly statusMessage: string;
  /** A JSON object. */
  readonly attributes: string;
  readonly links: readonly LinkRow[];
}

export class SpanBatch extends Batch {
  readonly #traceId = new Column("uuid");
  readonly #spanId = new Column("int8");
  readonly #startUs = new Column("int8");
  readonly #parentSpanId = new Column("int8");
  readonly #durationUs = new Column("int8");
  readonly #kind = new Column("int2");
  readonly #isError = new Column("bool");
  readonly #owner = new Column("text");
  readonly #service = new Column("text");
  readonly #name = new Column("text");
  readonly #statusMessage = new Column("text");
  readonly #attributes = new Column("text");
  readonly #linkedTraceId = new Column("uuid");
  readonly #linkedSpanId = new Column("int8");
  readonly #linkTraceId = new Column("uuid");
  readonly #linkSpanId = new Column("int8");
  readonly #linkStartUs = new Column("int8");
  readonly #linkOwner = new Column("text");
  /** In the order of the statement's parameters. */
  protected readonly columns = [
    this.#traceId,
    this.#spanId,
    this.#startUs,
    this.#parentSpanId,
    this.#durationUs,
    this.#kind,
    this.#isError,
    this.#owner,
    this.#service,
    this.#name,
    this.#statusMessage,
    this.#attributes,
    this.#linkedTraceId,
    this.#linkedSpanId,
    this.#linkTraceId,
    this.#linkSpanId,
    this.#linkStartUs,
    this.#linkOwner,
  ];

  add(row: SpanRow): void {
    this.#traceId.uuid(row.traceId);
    this.#spanId.int8(row.spanId);
    this.#startUs.int8(row.startUs);
    this.#parentSpanId.int8(row.parentSpanId);
    this.#durationUs.int8(row.durationUs);
    this.#kind.int2(row.kind);
    this.#isError.bool(row.isError);
    this.#owner.text(row.owner);
    this.#service.text(row.service);
    this.#name.text(row.name);
    this.#statusMessage.text(row.statusMessage);
    this.#attributes.text(row.attributes);
    for (const link of row.links) {
      this.#linkedTraceId.uuid(link.traceId);
      this.#linkedSpanId.int8(link.spanId);
      this.#linkTraceId.uuid(row.traceId);
      this.#linkSpanId.int8(row.spanId);
      this.#linkStartUs.int8(row.startUs);
      this.#linkOwner.text(row.owner);
    }
    this.rows += 1;
  }

  statement(): Statement {
    return { name: "insert_spans", text: insertSpans, values: this.columns.map((column) => column.parameter()) };
  }
}
