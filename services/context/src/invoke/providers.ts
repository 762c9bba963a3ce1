/** The services that answer roots of their own, asked for them at the start and then for as long as the process lives. */
import { pause, type Timers } from "../timers.js";
import type { CapabilityProvider } from "./provider.js";

/** Between two questions while every service has been heard, and while one has not. */
const everyMs = 30_000;
const unheardMs = 1_000;

/** Asks until `stopping` aborts. Never rejects. */
export async function followProviders(
  providers: readonly CapabilityProvider[],
  timers: Timers,
  stopping: AbortSignal,
): Promise<void> {
  while (providers.length > 0 && !stopping.aborted) {
    await Promise.all(providers.map((provider) => provider.refresh(stopping)));
    await pause(timers, providers.every(({ isHeard }) => isHeard) ? everyMs : unheardMs, stopping);
  }
}

/**
 * Parses `<service>=<url>,…`.
 *
 * @throws RangeError, a plain sentence starting with a verb: what the first part that is neither holds.
 */
export function parseProviders(text: string): ReadonlyMap<string, string> {
  const providers = new Map<string, string>();
  for (const part of text.split(",").map((part) => part.trim())) {
    if (part === "") continue;
    const [, name, url] = /^([a-z][a-z0-9-]{0,62})=(https?:\/\/[^\s,]+)$/.exec(part) ?? [];
    if (name === undefined || url === undefined || !URL.canParse(url))
      throw new RangeError(`holds ${JSON.stringify(part.slice(0, 100))}, which is not <service>=<http(s) address>`);
    if (providers.has(name)) throw new RangeError(`names ${name} twice`);
    providers.set(name, url);
  }
  return providers;
}
