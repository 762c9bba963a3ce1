/**
 * Takes exports, whatever brought them: every item is stored or accounted for, and a request is taken as a whole or refused as a whole.
 * An answer means "will be stored": what is taken waits in memory, within a bound, until the database has it.
 */
import { createHash } from "node:crypto";
import type { Metric } from "@iterate-platform/proto/opentelemetry/proto/metrics/v1/metrics";
import { isCodedError } from "iterate/lib";
import type { BatchQueue } from "../store/batch-queue.js";
import type { LogBatch } from "../store/log-batch.js";
import type { SpanBatch } from "../store/span-batch.js";
import type { TelemetryCounts } from "../telemetry-counts.js";
import { readExport, type Encoding } from "./read-export.js";
import { logRow, rejections, spanRow, type Rejection } from "./rows.js";
import { logShape, metricShape, spanShape } from "./signal.js";

export interface ReceiverOptions {
  readonly spans: BatchQueue<SpanBatch>;
  readonly logs: BatchQueue<LogBatch>;
  readonly counts: TelemetryCounts;
  readonly nowMs: () => number;
}

/** What was not taken of a request that was. */
export interface PartialSuccess {
  readonly rejected: number;
  /** Why, for a person; empty when everything was taken. */
  readonly message: string;
}

export class Receiver {
  readonly #options: ReceiverOptions;

  constructor(options: ReceiverOptions) {
    this.#options = options;
  }

  /** Throws OVERLOADED (send again later) when too much waits, INVALID_INPUT (do not) when the body is not OTLP. */
  traces(encoding: Encoding, body: Uint8Array): PartialSuccess {
    const { spans, nowMs } = this.#options;
    return this.#take("traces", spans, body, (batch) => {
      const now = nowMs();
      const tally = new Tally("spans");
      for (const { service, item } of readExport(spanShape, encoding, body)) {
        const row = spanRow(service, item, now);
        if (tally.takes(row)) batch.add(row);
      }
      return tally;
    });
  }

  /** As `traces`. */
  logs(encoding: Encoding, body: Uint8Array): PartialSuccess {
    const { logs, nowMs } = this.#options;
    return this.#take("logs", logs, body, (batch) => {
      const now = nowMs();
      const exportId = createHash("sha256").update(body).digest().readBigInt64BE(0);
      const tally = new Tally("log records");
      for (const { service, item } of readExport(logShape, encoding, body)) {
        const row = logRow(service, item, exportId, tally.items, now);
        if (tally.takes(row)) batch.add(row);
      }
      return tally;
    });
  }

  /** Nothing is kept of metrics, and the answer says so. Throws INVALID_INPUT when the body is not OTLP. */
  metrics(encoding: Encoding, body: Uint8Array): PartialSuccess {
    let points = 0;
    for (const { item } of readExport(metricShape, encoding, body)) points += pointsOf(item);
    this.#options.counts.received("metrics", points);
    this.#options.counts.rejected("metrics", "unsupported", points);
    if (points === 0) return { rejected: 0, message: "" };
    return {
      rejected: points,
      message: "metrics are not kept here, only traces and logs; let Prometheus read /metrics of each process instead",
    };
  }

  #take<Rows extends SpanBatch | LogBatch>(
    signal: "traces" | "logs",
    queue: BatchQueue<Rows>,
    body: Uint8Array,
    fill: (batch: Rows) => Tally,
  ): PartialSuccess {
    const { counts } = this.#options;
    let tally: Tally;
    try {
      queue.checkRoom(body.length);
      tally = queue.add(fill);
    } catch (error) {
      counts.refused(signal, isCodedError(error) && error.code === "OVERLOADED" ? "overloaded" : "malformed");
      throw error;
    }
    counts.received(signal, tally.items);
    for (const [reason, items] of tally.rejected) counts.rejected(signal, reason, items);
    return tally.answer();
  }
}

/** What became of the items of one request. */
class Tally {
  items = 0;
  readonly rejected = new Map<Rejection, number>();
  readonly #noun: string;

  constructor(noun: string) {
    this.#noun = noun;
  }

  /** Counts one item, and answers whether it is a row. */
  takes<Row extends object>(row: Row | Rejection): row is Row {
    this.items += 1;
    if (typeof row === "object") return true;
    this.rejected.set(row, (this.rejected.get(row) ?? 0) + 1);
    return false;
  }

  answer(): PartialSuccess {
    const reasons = [...this.rejected].map(([reason, items]) => `${items} ${rejections[reason]}`);
    const rejected = [...this.rejected.values()].reduce((sum, items) => sum + items, 0);
    return {
      rejected,
      message: rejected === 0 ? "" : `${rejected} of ${this.items} ${this.#noun} are not stored: ${reasons.join(", ")}`,
    };
  }
}

function pointsOf({ data }: Metric): number {
  return data?.value.dataPoints.length ?? 0;
}
