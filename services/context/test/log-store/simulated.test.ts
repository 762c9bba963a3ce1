/** The simulated store keeps the promises of Postgres: what the simulation finds, it finds in the log and not in its stand-in. */
import { test } from "vitest";
import type { LogLane } from "../../src/log/log-store.js";
import { SimulatedLog } from "../simulation/simulated-log.js";
import { SimulatedLogStore } from "../simulation/simulated-log-store.js";
import type { Fate } from "../simulation/statements.js";
import { Random } from "../simulation/random.js";
import { VirtualTime } from "../simulation/virtual-time.js";
import { conformanceCases, runCase } from "./conformance.js";
import type { StoreUnderTest } from "./store-under-test.js";

class SimulatedUnderTest implements StoreUnderTest {
  readonly time = new VirtualTime();
  readonly #random = new Random(1);
  readonly #log = new SimulatedLog(() => Math.round(this.time.nowMs() * 1_000));
  readonly store = this.#storeWith((): Fate["kind"] => "answered");

  async untilBlocked(count: number): Promise<void> {
    for (let tries = 0; this.#log.blocked !== count; tries += 1) {
      if (tries === 1_000) throw new Error(`${this.#log.blocked} statements wait, not ${count}`);
      await this.time.sleep(1);
    }
  }

  async openLaneThatLosesAnAnswer(): Promise<LogLane> {
    let isLost = false;
    return this.#storeWith((statement) => {
      if (isLost || statement !== "commit") return "answered";
      isLost = true;
      return "lost-answer";
    }).openLane();
  }

  async raiseGeneration(): Promise<void> {
    this.#log.generation += 1;
  }

  #storeWith(kindOf: (statement: string) => Fate["kind"]): SimulatedLogStore {
    const ms = (): number => this.#random.next() * 3;
    return new SimulatedLogStore(this.#log, {
      time: this.time,
      fateOf: (statement) => ({ beforeMs: ms(), commitMs: ms(), afterMs: ms(), kind: kindOf(statement) }),
      isAway: () => false,
      isDead: () => false,
    });
  }
}

test.each(conformanceCases.map((one) => [one.name, one] as const))("%s", async (_, one) => {
  const subject = new SimulatedUnderTest();
  let outcome: { readonly error?: unknown } | undefined;
  runCase(one, subject).then(
    () => (outcome = {}),
    (error: unknown) => (outcome = { error }),
  );
  await subject.time.run(() => outcome !== undefined);
  if (outcome?.error !== undefined) throw outcome.error as Error;
});
