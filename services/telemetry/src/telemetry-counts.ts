/** What became of everything that was sent here: received = stored + waiting + dropped + rejected. */
import type { Metrics } from "@iterate-platform/service/metrics";

export type CountedSignal = "traces" | "logs" | "metrics";
export type RejectionReason = "ids" | "time" | "unsupported";
export type RefusalReason = "overloaded" | "malformed";

export class TelemetryCounts {
  readonly #received = new Map<CountedSignal, number>();
  readonly #stored = new Map<CountedSignal, number>();
  readonly #dropped = new Map<CountedSignal, number>();
  readonly #rejected = new Map<string, { readonly labels: { signal: CountedSignal; reason: RejectionReason }; value: number }>();
  readonly #refused = new Map<string, { readonly labels: { signal: CountedSignal; reason: RefusalReason }; value: number }>();

  /** Items of requests that were taken. */
  received(signal: CountedSignal, items: number): void {
    raise(this.#received, signal, items);
  }

  /** Items the database has. */
  stored(signal: CountedSignal, items: number): void {
    raise(this.#stored, signal, items);
  }

  /** Items that were taken and are lost. */
  dropped(signal: CountedSignal, items: number): void {
    raise(this.#dropped, signal, items);
  }

  /** Items of taken requests that are not stored; their senders were told. */
  rejected(signal: CountedSignal, reason: RejectionReason, items: number): void {
    raiseLabelled(this.#rejected, { signal, reason }, items);
  }

  /** A whole request that was not taken. */
  refused(signal: CountedSignal, reason: RefusalReason): void {
    raiseLabelled(this.#refused, { signal, reason }, 1);
  }

  observe(metrics: Metrics): void {
    const bySignal = (name: string, description: string, counts: Map<CountedSignal, number>): void =>
      metrics.observedCounter(`iterate.telemetry.items.${name}`, { description }, () =>
        [...counts].map(([signal, value]) => ({ value, labels: { signal } })),
      );
    bySignal("received", "Spans, log records and metric points that came in requests that were taken.", this.#received);
    bySignal("stored", "Spans and log records that the database has.", this.#stored);
    bySignal("dropped", "Spans and log records that were taken and are lost.", this.#dropped);
    metrics.observedCounter(
      "iterate.telemetry.items.rejected",
      { description: "Items that are not stored, as their senders were told, by reason." },
      () => [...this.#rejected.values()],
    );
    metrics.observedCounter(
      "iterate.telemetry.requests.refused",
      { description: "Requests that were not taken, by reason." },
      () => [...this.#refused.values()],
    );
  }
}

function raise<Key>(counts: Map<Key, number>, key: Key, by: number): void {
  counts.set(key, (counts.get(key) ?? 0) + by);
}

function raiseLabelled<Labels extends { readonly signal: string; readonly reason: string }>(
  counts: Map<string, { readonly labels: Labels; value: number }>,
  labels: Labels,
  by: number,
): void {
  if (by === 0) return;
  const key = `${labels.signal} ${labels.reason}`;
  const counted = counts.get(key) ?? { labels, value: 0 };
  counted.value += by;
  counts.set(key, counted);
}
