/**
 * Metrics of one process by OpenTelemetry's instruments, read by Prometheus. Names are dotted and lower-case (`rpc.server.call.duration`);
 * the exposition spells them `rpc_server_call_duration_seconds`. Labels are for the few: their combinations are bounded by the
 * library, an owner or a path is never one.
 */
import type { Attributes } from "@opentelemetry/api";
import { PrometheusSerializer } from "@opentelemetry/exporter-prometheus";
import { AggregationTemporality, MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";

export interface MetricOptions {
  /** One sentence, shown as HELP. */
  readonly description: string;
  /** Exposed as the suffix that Prometheus' users expect. */
  readonly unit?: "s" | "By";
}

export interface Counter {
  add(value: number, labels?: Attributes): void;
}

export interface Gauge {
  set(value: number, labels?: Attributes): void;
}

export interface Histogram {
  record(value: number, labels?: Attributes): void;
}

export interface HistogramOptions extends MetricOptions {
  /** Upper bounds of the buckets; by default for seconds, 1 ms to 10 s. */
  readonly boundaries?: readonly number[];
}

/** What an observed gauge answers when it is read. */
export type Observation = number | readonly { readonly value: number; readonly labels: Attributes }[];

const secondBoundaries = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

const suffixes = { s: ".seconds", By: ".bytes" } as const;

/** Longest wait for all observed gauges of one scrape, ms. */
const collectTimeoutMs = 5_000;

/** Collected when asked, never on a timer. */
class PullReader extends MetricReader {
  constructor() {
    super({ aggregationTemporalitySelector: () => AggregationTemporality.CUMULATIVE });
  }
  protected override onForceFlush(): Promise<void> {
    return Promise.resolve();
  }
  protected override onShutdown(): Promise<void> {
    return Promise.resolve();
  }
}

export class Metrics {
  readonly #reader = new PullReader();
  readonly #provider = new MeterProvider({ readers: [this.#reader] });
  readonly #meter = this.#provider.getMeter("iterate");
  readonly #serializer = new PrometheusSerializer(undefined, false, undefined, true, true);

  /** A number that only grows, exposed with the suffix `_total`. */
  counter(name: string, options: MetricOptions): Counter {
    return this.#meter.createCounter(...exposed(name, options));
  }

  /** A number that is set. */
  gauge(name: string, options: MetricOptions): Gauge {
    const gauge = this.#meter.createGauge(...exposed(name, options));
    return { set: (value, labels) => gauge.record(value, labels) };
  }

  /** A number that is read when it is asked for. `read` must be cheap; what it throws leaves the metric out. */
  observedGauge(name: string, options: MetricOptions, read: () => Observation): void {
    this.#meter.createObservableGauge(...exposed(name, options)).addCallback((result) => {
      const observation = read();
      if (typeof observation === "number") result.observe(observation);
      else for (const { value, labels } of observation) result.observe(value, labels);
    });
  }

  /** As `observedGauge`, for a number that only grows. */
  observedCounter(name: string, options: MetricOptions, read: () => Observation): void {
    this.#meter.createObservableCounter(...exposed(name, options)).addCallback((result) => {
      const observation = read();
      if (typeof observation === "number") result.observe(observation);
      else for (const { value, labels } of observation) result.observe(value, labels);
    });
  }

  /** A distribution, e.g. of durations in seconds. */
  histogram(name: string, { boundaries = secondBoundaries, ...options }: HistogramOptions): Histogram {
    const [spelled, rest] = exposed(name, options);
    return this.#meter.createHistogram(spelled, { ...rest, advice: { explicitBucketBoundaries: [...boundaries] } });
  }

  /** All metrics in Prometheus' text exposition format. */
  async text(): Promise<string> {
    const { resourceMetrics } = await this.#reader.collect({ timeoutMillis: collectTimeoutMs });
    return this.#serializer.serialize(resourceMetrics);
  }
}

function exposed(name: string, { description, unit }: MetricOptions): [name: string, options: { description: string }] {
  return [unit === undefined ? name : `${name}${suffixes[unit]}`, { description }];
}
