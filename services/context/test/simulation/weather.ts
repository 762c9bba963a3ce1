/** How rough a run is: what becomes of statements and messages, drawn from the seed. */
import type { Random } from "./random.js";
import type { BrokerWeather } from "./simulated-broker.js";
import type { Fate } from "./statements.js";

export class Weather {
  readonly #random: Random;
  /** Chance of a statement to be disturbed. */
  readonly #disturbed: number;
  /** Chance of a statement to be slow. */
  readonly #slow: number;
  readonly #latencyMs: number;
  readonly #broker: BrokerWeather;
  /** Nothing is disturbed any more. */
  isCalm = false;

  constructor(random: Random) {
    this.#random = random;
    this.#disturbed = random.pick([0, 0.005, 0.02, 0.06]);
    this.#slow = random.pick([0, 0.01, 0.05]);
    this.#latencyMs = random.pick([1, 3, 15, 40]);
    this.#broker = {
      drop: random.pick([0, 0.05, 0.3, 1]),
      repeat: random.pick([0, 0.1]),
      delayMs: random.pick([2, 20, 800]),
    };
  }

  fateOf(): Fate {
    const random = this.#random;
    if (this.isCalm) return { beforeMs: random.next(), commitMs: random.next(), afterMs: random.next(), kind: "answered" };
    const slowMs = random.chance(this.#slow) ? random.between(10, 400) : 0;
    const ms = (): number => random.next() * this.#latencyMs;
    const kind = random.chance(this.#disturbed) ? random.pick(["lost-request", "lost-answer", "given-up"] as const) : "answered";
    // A client that gives up does so after a while; the statement may run seconds later.
    const patienceMs = kind === "answered" ? 0 : random.pick([0, 20, 1_500]);
    return { beforeMs: ms() + slowMs, commitMs: ms(), afterMs: ms() + patienceMs, kind };
  }

  broker(): BrokerWeather {
    return this.isCalm ? { drop: 0, repeat: 0, delayMs: 2 } : this.#broker;
  }
}
