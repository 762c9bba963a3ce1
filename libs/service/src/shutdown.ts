/**
 * An orderly end within a bound: listeners drain together, then what was started is stopped in reverse order, each step with what
 * is left of the time. A step that fails or overruns is reported and the next one goes on.
 */
import type { Log } from "./log.js";

/** Something that takes work from outside. */
export interface Listener {
  /** Binds; resolves to the port. */
  start(): Promise<number>;
  /** Takes nothing new and finishes what is begun within `boundMs`; resolves to how much had to be cut. */
  drain(boundMs: number): Promise<number>;
}

/** Ends a part of the service; `boundMs` is what is left of the time. */
export type StopStep = (boundMs: number) => void | Promise<unknown>;

/** Share of the bound that listeners may use; the rest is for handing over what they leave. */
const listenerShare = 0.6;

export class Shutdown {
  readonly #log: Log;
  readonly #nowMs: () => number;
  readonly #listeners: { readonly name: string; readonly listener: Listener }[] = [];
  readonly #steps: { readonly name: string; readonly step: StopStep }[] = [];

  constructor(log: Log, nowMs: () => number = () => performance.now()) {
    this.#log = log;
    this.#nowMs = nowMs;
  }

  addListener(name: string, listener: Listener): void {
    this.#listeners.push({ name, listener });
  }

  addStep(name: string, step: StopStep): void {
    this.#steps.push({ name, step });
  }

  get listeners(): readonly { readonly name: string; readonly listener: Listener }[] {
    return this.#listeners;
  }

  /** Resolves to true when everything ended by itself within `boundMs`. */
  async run(boundMs: number): Promise<boolean> {
    const endsAt = this.#nowMs() + boundMs;
    const left = (): number => Math.max(0, endsAt - this.#nowMs());
    const drains = this.#listeners.map(({ name, listener }) =>
      this.#attempt(name, boundMs * listenerShare + drainSlackMs, async () =>
        this.#drained(name, await listener.drain(boundMs * listenerShare)),
      ),
    );
    let isClean = (await Promise.all(drains)).every(Boolean);
    for (const { name, step } of [...this.#steps].reverse())
      isClean = (await this.#attempt(name, left(), async () => step(left()))) && isClean;
    return isClean;
  }

  #drained(name: string, cut: number): void {
    if (cut > 0) throw new Error(`${cut} calls of ${name} were still open at the bound of the drain`);
  }

  async #attempt(name: string, boundMs: number, act: () => Promise<unknown>): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>(
      (_resolve, reject) => (timer = setTimeout(() => reject(new Error(`it took longer than ${Math.round(boundMs)} ms`)), boundMs)),
    );
    try {
      await Promise.race([act(), late]);
      return true;
    } catch (error) {
      this.#log.warn(`stopping ${name} did not end well`, { error });
      return false;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** A listener cuts what is left at its own bound; this is for doing so. */
const drainSlackMs = 1_000;
