/**
 * The recent ephemeral events that this process took, for readers who come a little later: of each context the newest, up to 1 MiB. A
 * process-wide bound of bytes and one of contexts let whole contexts go, those that got nothing for the longest time first; so does a minute without a new event.
 * Nothing here is promised to last.
 */
import type { ContextAddress } from "../log/contract.js";
import type { KeptEphemeral } from "./contract.js";

/** Of one context; its newest event is kept whatever its size. */
export const ringBytes = 1_048_576;
/** Of all contexts. */
export const allRingsBytes = 67_108_864;
/** Contexts with a ring: each is listened to, and so asked of the database every 500 ms. */
export const maxRings = 10_000;
/** A context without a new event for so long is let go. */
export const ringIdleMs = 60_000;

interface Ring {
  readonly events: KeptEphemeral[];
  bytes: number;
  usedAtMs: number;
  /** Called once when the ring goes. */
  readonly release: () => void;
}

export interface EphemeralRingsParts {
  readonly nowMs: () => number;
  /** Called when the first event of a context is kept; the answered function when all of it are let go. */
  readonly onKept: (address: ContextAddress) => () => void;
  readonly maxBytes?: number;
  readonly maxContexts?: number;
}

export class EphemeralRings {
  readonly #parts: EphemeralRingsParts;
  readonly #maxBytes: number;
  readonly #maxContexts: number;
  /** Those used last at the end. */
  readonly #rings = new Map<string, Ring>();
  #bytes = 0;

  constructor(parts: EphemeralRingsParts) {
    this.#parts = parts;
    this.#maxBytes = parts.maxBytes ?? allRingsBytes;
    this.#maxContexts = parts.maxContexts ?? maxRings;
  }

  get counts(): { contexts: number; bytes: number } {
    return { contexts: this.#rings.size, bytes: this.#bytes };
  }

  /** Keeps events that follow those kept of the context. */
  add(address: ContextAddress, events: readonly KeptEphemeral[]): void {
    const key = keyOf(address);
    const ring = this.#rings.get(key) ?? { events: [], bytes: 0, usedAtMs: 0, release: this.#parts.onKept(address) };
    this.#rings.delete(key);
    this.#rings.set(key, ring);
    ring.usedAtMs = this.#parts.nowMs();
    for (const event of events) {
      ring.events.push(event);
      this.#grow(ring, event.bytes);
    }
    let gone = 0;
    for (; ring.bytes > ringBytes && gone < ring.events.length - 1; gone += 1) this.#grow(ring, -ring.events[gone]!.bytes);
    ring.events.splice(0, gone);
    for (const oldest of this.#rings.keys()) {
      if ((this.#bytes <= this.#maxBytes && this.#rings.size <= this.#maxContexts) || oldest === key) break;
      this.#drop(oldest);
    }
  }

  /** The kept events of a context, in offset order; `undefined` when none is kept. */
  of(address: ContextAddress): readonly KeptEphemeral[] | undefined {
    return this.#rings.get(keyOf(address))?.events;
  }

  /** Lets go of contexts without a new event for a minute. */
  sweep(): void {
    const until = this.#parts.nowMs() - ringIdleMs;
    for (const [key, { usedAtMs }] of this.#rings) {
      if (usedAtMs > until) break;
      this.#drop(key);
    }
  }

  clear(): void {
    for (const key of [...this.#rings.keys()]) this.#drop(key);
  }

  #drop(key: string): void {
    const ring = this.#rings.get(key)!;
    this.#rings.delete(key);
    this.#bytes -= ring.bytes;
    ring.release();
  }

  #grow(ring: Ring, bytes: number): void {
    ring.bytes += bytes;
    this.#bytes += bytes;
  }
}

function keyOf({ owner, path }: ContextAddress): string {
  return `${owner}\0${path}`;
}
