/** Tells who waits in this process that a subscription may have moved. A hint: whoever waits looks again by itself too. */
import type { ContextKey } from "./contract.js";

export class Progress {
  readonly #listeners = new Map<string, Set<() => void>>();

  moved(context: ContextKey, name: string): void {
    for (const listener of this.#listeners.get(key(context, name)) ?? []) listener();
  }

  /** Resolves at the next move, after `timeoutMs`, or when the signal aborts. */
  async next(context: ContextKey, name: string, timeoutMs: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const at = key(context, name);
    const listeners = this.#listeners.get(at) ?? new Set();
    this.#listeners.set(at, listeners.add(resolve));
    const timer = setTimeout(resolve, timeoutMs);
    const stop = (): void => resolve();
    signal.addEventListener("abort", stop, { once: true });
    await promise;
    signal.removeEventListener("abort", stop);
    clearTimeout(timer);
    listeners.delete(resolve);
    if (listeners.size === 0) this.#listeners.delete(at);
  }
}

function key({ owner, path }: ContextKey, name: string): string {
  return `${owner}\0${path}\0${name}`;
}
