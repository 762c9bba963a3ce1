/**
 * The dictionary between event types and their numbers. A number never changes its name, so what is known stays true; what is not
 * known is asked every time, because it may have been added since.
 */
import { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import { codedError } from "iterate/lib";
import type { LogStore } from "./log-store.js";

/** Types held at most; a deployment with more asks again for what was let go. */
const maxHeld = 100_000;

export class EventTypes {
  readonly #store: LogStore;
  readonly #names = new Map<number, string>();
  readonly #numbers = new Map<string, number>();
  /** Of types whose field was asked for. */
  readonly #fields = new Map<number, Buffer>();

  constructor(store: LogStore) {
    this.#store = store;
  }

  /** Numbers of those of `names` that any event had when this was called; the others match nothing committed before. */
  async numbersOf(names: readonly string[]): Promise<number[]> {
    const unknown = names.filter((name) => !this.#numbers.has(name));
    if (unknown.length > 0) for (const [name, type] of await this.#store.typeNumbers(unknown)) this.#keep(type, name);
    return names.flatMap((name) => this.#numbers.get(name) ?? []);
  }

  /** A function that names each of `types`, all taken from rows of the log. */
  async namesOf(types: Iterable<number>): Promise<(type: number) => string> {
    const asked = [...new Set(types)];
    let unknown = asked.filter((type) => !this.#names.has(type));
    if (unknown.length > 0) {
      if (this.#names.size + unknown.length > maxHeld) unknown = asked;
      for (const [type, name] of await this.#store.typeNames(unknown)) this.#keep(type, name);
    }
    const names = new Map(asked.map((type) => [type, this.#names.get(type)]));
    return (type) => {
      const name = names.get(type);
      if (name === undefined) throw codedError("INTERNAL", `the event type numbered ${type} has no name`, { type });
      return name;
    };
  }

  /** The bytes of field `type` of the events of a type, when its name is held here. */
  knownField(type: number): Buffer | undefined {
    const known = this.#fields.get(type);
    if (known !== undefined) return known;
    const name = this.#names.get(type);
    if (name === undefined) return undefined;
    const field = Buffer.from(Event.encode(Event.create({ type: name })).finish());
    this.#fields.set(type, field);
    return field;
  }

  #keep(type: number, name: string): void {
    if (this.#names.size >= maxHeld) {
      this.#names.clear();
      this.#numbers.clear();
      this.#fields.clear();
    }
    this.#names.set(type, name);
    this.#numbers.set(name, type);
  }
}
