/** Work that is done once for all who ask for it at the same time; it ends when the last of them has gone. */
import { codedError } from "iterate/lib";

export interface Progress {
  readonly stage: "read" | "resolve" | "bundle" | "store";
  readonly message: string;
}

export interface Passenger {
  readonly onProgress: (progress: Progress) => void;
  readonly signal: AbortSignal;
}

interface Flight<Result> {
  readonly result: Promise<Result>;
  readonly controller: AbortController;
  readonly passengers: Set<Passenger>;
  /** Told to who joins late. */
  readonly told: Progress[];
}

export class Flights<Result> {
  readonly #flights = new Map<string, Flight<Result>>();

  /**
   * The result of `work` under `key`, or of the one that is under way. `work` runs once; its signal fires when nobody waits any more.
   * Rejects as `work` does, and with CANCELLED when the passenger's own signal fires.
   */
  async join(key: string, passenger: Passenger, work: (flight: Passenger) => Promise<Result>): Promise<Result> {
    if (passenger.signal.aborted) throw codedError("CANCELLED", "the caller went away");
    let flight = this.#flights.get(key);
    if (flight === undefined) {
      flight = this.#begin(key, work);
      this.#flights.set(key, flight);
    }
    for (const progress of flight.told) passenger.onProgress(progress);
    return await this.#ride(key, flight, passenger);
  }

  #begin(key: string, work: (flight: Passenger) => Promise<Result>): Flight<Result> {
    const controller = new AbortController();
    const passengers = new Set<Passenger>();
    const told: Progress[] = [];
    const onProgress = (progress: Progress): void => {
      told.push(progress);
      for (const passenger of passengers) passenger.onProgress(progress);
    };
    const result = work({ onProgress, signal: controller.signal }).finally(() => {
      if (this.#flights.get(key)?.controller === controller) this.#flights.delete(key);
    });
    result.catch(() => undefined);
    return { result, controller, passengers, told };
  }

  async #ride(key: string, flight: Flight<Result>, passenger: Passenger): Promise<Result> {
    flight.passengers.add(passenger);
    let onAbort!: () => void;
    const left = new Promise<never>((_, reject) => {
      onAbort = () => reject(codedError("CANCELLED", "the caller went away"));
      passenger.signal.addEventListener("abort", onAbort, { once: true });
    });
    try {
      return await Promise.race([flight.result, left]);
    } finally {
      passenger.signal.removeEventListener("abort", onAbort);
      flight.passengers.delete(passenger);
      // Who asks from now on does not join work that is being given up.
      if (flight.passengers.size === 0) {
        if (this.#flights.get(key) === flight) this.#flights.delete(key);
        flight.controller.abort();
      }
    }
  }
}
