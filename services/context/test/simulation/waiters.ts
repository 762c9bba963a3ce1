/**
 * Clients that wait for an event. One that names where it looks from must be answered the first match after it; a row of them that
 * stand in line at one process, for the same events, must be answered in the order in which they came.
 */
import { isCodedError } from "iterate/lib";
import type { ContextAddress } from "../../src/log/contract.js";
import type { Pod } from "./pod.js";
import type { Random } from "./random.js";
import { ordinaryTypes } from "./scenery.js";
import type { World } from "./world.js";

const timeoutMs = 8_000;
/** A commit is noticed by then, whatever was lost, while the database is there. */
const noticedMs = 5_000;

export async function runWaiter(world: World, random: Random, name: string): Promise<void> {
  while (world.isOpen) {
    await world.time.sleep(random.next() * 300);
    const pod = world.pickPod(random);
    if (pod === undefined) continue;
    await (random.chance(0.6) ? waitAlone(world, random, name, pod) : waitInLine(world, random, name, pod));
  }
}

async function waitAlone(world: World, random: Random, name: string, pod: Pod): Promise<void> {
  const address = world.pickAddress(random);
  const types = [random.pick(ordinaryTypes)];
  const after = Math.max(0, world.truth.headOf(address) - random.between(0, 6));
  const who = `${name} at ${pod.name}`;
  try {
    const event = await pod.call(pod.waits.wait({ address, types, payload: undefined, after, timeoutMs }, never()));
    world.truth.checkEvent(who, address, event);
    // An ephemeral one may be lost; it must not be answered when a stored one came before it.
    const [first] = world.truth.eventsIn(address, after, event.ephemeral ? Number(event.offset) : Infinity, types);
    world.require(
      event.ephemeral ? first === undefined : first?.offset === Number(event.offset),
      () =>
        `${who} waited for ${types[0]} of ${address.path} after ${after} and was answered ${event.offset}, not ${first?.offset}`,
    );
  } catch (error) {
    const [missed] = world.truth.eventsIn(address, after, Infinity, types);
    checkFailure(world, error, missed === undefined ? undefined : world.truth.visibleSince(address, missed.offset), who);
  }
}

function checkFailure(world: World, error: unknown, matchedAtMs: number | undefined, who: string): void {
  if (!isCodedError(error) || !error.retryable) throw error;
  if (error.code !== "WAIT_TIMEOUT" || matchedAtMs === undefined) return;
  const isLate = world.time.nowMs() - Math.max(matchedAtMs, world.lastAwayMs) > noticedMs;
  world.require(!isLate, () => `${who} waited in vain for what was there since ${matchedAtMs.toFixed(0)}`);
}

/** Those who wait for any event from the head on, at one process and in one turn. */
async function waitInLine(world: World, random: Random, name: string, pod: Pod): Promise<void> {
  const address = world.pickAddress(random);
  const count = random.between(2, 3);
  const line = new Line(world, `${name} at ${pod.name}`, pod, address);
  try {
    await Promise.all(Array.from({ length: count }, (_, place) => line.stand(place)));
  } finally {
    line.leave();
  }
}

class Line {
  readonly #world: World;
  readonly #who: string;
  readonly #pod: Pod;
  readonly #address: ContextAddress;
  readonly #stopWatching: () => void;
  /** Places in the order of their answers, from when all stood in line with nothing else to look at. */
  readonly #answered: number[] = [];
  /** When the first match came after that. */
  #matchedAtMs: number | undefined;
  #offset: number | undefined;
  #ended = 0;

  constructor(world: World, who: string, pod: Pod, address: ContextAddress) {
    this.#world = world;
    this.#who = who;
    this.#pod = pod;
    this.#address = address;
    this.#stopWatching = world.truth.onCommit((committed, { events }) => {
      if (this.#ended > 0 || this.#matchedAtMs !== undefined || committed.path !== address.path) return;
      const isMatch = events.some(({ type }) => ordinaryTypes.includes(world.truth.typeName(type) ?? ""));
      if (!isMatch || pod.waits.standing !== pod.waits.count || pod.store.underWay > 0) return;
      this.#matchedAtMs = world.time.nowMs();
    });
  }

  async stand(place: number): Promise<void> {
    const address = this.#address;
    try {
      const event = await this.#pod.call(
        this.#pod.waits.wait({ address, types: ordinaryTypes, payload: undefined, after: undefined, timeoutMs }, never()),
      );
      this.#world.truth.checkEvent(this.#who, address, event);
      if (this.#matchedAtMs === undefined) return;
      this.#answered.push(place);
      this.#offset ??= Number(event.offset);
      this.#world.require(
        this.#answered.every((place, at) => at === 0 || place > this.#answered[at - 1]!) && Number(event.offset) === this.#offset,
        () =>
          `${this.#who}: waiters at ${address.path} were answered in the order ${this.#answered.join(" ")}, the last by ${event.offset}`,
      );
    } catch (error) {
      checkFailure(this.#world, error, this.#matchedAtMs, this.#who);
    } finally {
      this.#ended += 1;
    }
  }

  leave(): void {
    this.#stopWatching();
  }
}

function never(): AbortSignal {
  return new AbortController().signal;
}
