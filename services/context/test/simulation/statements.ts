/** How statements of a simulated process reach the simulated server, and what may become of them on the way. */
import { codedError, type CodedError } from "iterate/lib";
import type { VirtualTime } from "./virtual-time.js";

/** What happens to one statement. */
export interface Fate {
  /** Until it runs, milliseconds. */
  readonly beforeMs: number;
  /** From its first write to its commit. */
  readonly commitMs: number;
  /** From its end to its answer. */
  readonly afterMs: number;
  /** `lost-request`: it never runs. `lost-answer`: it runs and is answered by an error. `given-up`: the error comes before it runs. */
  readonly kind: "answered" | "lost-request" | "lost-answer" | "given-up";
}

/** How the server and the network treat the statements of one process. */
export interface StoreWorld {
  readonly time: VirtualTime;
  readonly fateOf: (statement: string) => Fate;
  /** The server takes no statements. */
  readonly isAway: () => boolean;
  /** The process is gone: nothing is answered to it, and nothing it would send is sent. */
  readonly isDead: () => boolean;
}

export function unavailable(): CodedError {
  return codedError("UNAVAILABLE", "the simulated database does not answer");
}

export class Statements {
  readonly #world: StoreWorld;
  #underWay = 0;

  constructor(world: StoreWorld) {
    this.#world = world;
  }

  /** Sent and not answered. */
  get underWay(): number {
    return this.#underWay;
  }

  get time(): VirtualTime {
    return this.#world.time;
  }

  /** Sends one statement. `run` happens at one moment, or takes `fate.commitMs` between its write and its commit. */
  send<Answer>(name: string, run: (fate: Fate) => Answer | Promise<Answer>): Promise<Answer> {
    const { time, fateOf, isAway, isDead } = this.#world;
    return new Promise((resolve, reject) => {
      if (isDead()) return;
      const fate = fateOf(name);
      this.#underWay += 1;
      const answer = (settle: () => void): void => {
        time.after(fate.afterMs, () => {
          this.#underWay -= 1;
          if (!isDead()) settle();
        });
      };
      const fail = (): void => answer(() => reject(unavailable()));
      if (fate.kind === "given-up") fail();
      time.after(fate.beforeMs + (fate.kind === "given-up" ? fate.afterMs : 0), () => {
        if (isAway() || fate.kind === "lost-request") return fate.kind === "given-up" ? undefined : fail();
        void this.#run(() => run(fate)).then(
          (value) => {
            if (fate.kind === "answered") answer(() => resolve(value));
            else if (fate.kind === "lost-answer") fail();
          },
          (error: Error) => {
            if (fate.kind !== "given-up") answer(() => reject(error));
          },
        );
      });
    });
  }

  async #run<Answer>(run: () => Answer | Promise<Answer>): Promise<Answer> {
    return run();
  }
}
