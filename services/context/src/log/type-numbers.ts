/** Numbers of event types on their way into the log. A type gets its number when its first event is about to be committed. */
import { codedError } from "iterate/lib";
import type { LogQueries } from "./log-store.js";

/** Types held at most; beyond it the held ones are let go and asked for again. */
const maxHeld = 100_000;

export class TypeNumbers {
  readonly #numbers = new Map<string, number>();

  has(name: string): boolean {
    return this.#numbers.has(name);
  }

  /** The number of a type that is held: `has` says so, or `learn` just saw to it. */
  of(name: string): number {
    const number = this.#numbers.get(name);
    if (number === undefined) throw codedError("INTERNAL", `event type ${JSON.stringify(name)} has no number`);
    return number;
  }

  /** Lets all types go when `count` more would be too many; answers whether it did. */
  makeRoom(count: number): boolean {
    if (this.#numbers.size + count <= maxHeld) return false;
    this.#numbers.clear();
    return true;
  }

  /** Gives each of `names` its number: one statement for those that exist, two more when some are new. */
  async learn(names: readonly string[], store: LogQueries): Promise<void> {
    const missing = await this.#read(names, store);
    if (missing.length === 0) return;
    await store.addTypes(missing);
    await this.#read(missing, store);
  }

  async #read(names: readonly string[], store: LogQueries): Promise<string[]> {
    for (const [name, number] of await store.typeNumbers(names)) this.#numbers.set(name, number);
    return names.filter((name) => !this.#numbers.has(name));
  }
}
