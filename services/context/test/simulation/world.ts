/** One simulated deployment: a database, a broker, processes that come and go, and what a run found wrong. */
import { createIdGenerator, type IdGenerator } from "@iterate-platform/service/ids";
import { Pod } from "./pod.js";
import type { ContextAddress } from "../../src/log/contract.js";
import type { Random } from "./random.js";
import { addresses, hot } from "./scenery.js";
import { ScheduleTruth } from "./schedule-truth.js";
import { SimulatedBroker } from "./simulated-broker.js";
import { SimulatedLog } from "./simulated-log.js";
import { Truth } from "./truth.js";
import type { VirtualTime } from "./virtual-time.js";
import { Weather } from "./weather.js";

/** Where wall clocks begin. */
const epochMs = Date.UTC(2030, 0, 1);
/** Lines of the story that a failure shows. */
const toldLines = 100;

export class World {
  readonly time: VirtualTime;
  readonly weather: Weather;
  readonly log: SimulatedLog;
  readonly broker: SimulatedBroker;
  readonly truth: Truth;
  readonly schedules: ScheduleTruth;
  readonly ids: IdGenerator;
  readonly pods: Pod[] = [];
  /** Epochs of partition owners, as leases give them out. */
  readonly epochs = new Map<number, number>();
  /** Restores so far. */
  restores = 0;
  #isAway = false;
  #backAtMs = -Infinity;
  /** New work may begin. */
  isOpen = true;
  readonly #random: Random;
  /** Share of the work that is on one context. */
  readonly #hotShare: number;
  #serial = 0;
  readonly #busy = new Map<string, number>();
  #story: string[] = [];
  #violation: string | undefined;

  constructor(time: VirtualTime, random: Random) {
    this.time = time;
    this.#random = random.fork();
    this.#hotShare = random.pick([0.2, 0.6, 1, 1]);
    this.weather = new Weather(random.fork());
    this.log = new SimulatedLog(
      () => Math.round((epochMs + time.nowMs()) * 1_000),
      (context, commit) => {
        this.truth.committed(context, commit);
        this.schedules.committed(context, commit);
      },
    );
    this.truth = new Truth(this);
    this.schedules = new ScheduleTruth(this);
    this.broker = new SimulatedBroker(time, random.fork(), () => this.weather.broker());
    const idRandom = random.fork();
    this.ids = createIdGenerator({
      nowMs: () => this.clockMs(),
      fillRandom: (bytes) => void bytes.forEach((_, at) => (bytes[at] = idRandom.between(0, 255))),
    });
  }

  /** The database takes no statements. */
  get isAway(): boolean {
    return this.#isAway;
  }

  set isAway(isAway: boolean) {
    this.#isAway = isAway;
    this.#backAtMs = this.time.nowMs();
  }

  /** When the database took no statements last. */
  get lastAwayMs(): number {
    return this.#isAway ? this.time.nowMs() : this.#backAtMs;
  }

  /** Milliseconds since 1970. */
  clockMs(): number {
    return Math.floor(epochMs + this.time.nowMs());
  }

  /** The first thing that was found wrong, with what came before it. */
  get violation(): string | undefined {
    return this.#violation;
  }

  /** A digest of everything that happened. */
  get story(): readonly string[] {
    return this.#story;
  }

  /** Actors that began and are not done. */
  get busy(): readonly string[] {
    return [...this.#busy.keys()];
  }

  tell(line: string): void {
    this.#story.push(`${this.time.nowMs().toFixed(2).padStart(10)} ${line}`);
    if (this.#story.length > 20 * toldLines) this.#story = this.#story.slice(-toldLines);
  }

  fail(problem: string): void {
    this.#violation ??= [problem, ...this.#story.slice(-toldLines)].join("\n  ");
  }

  require(isTrue: boolean, problem: () => string): void {
    if (!isTrue) this.fail(problem());
  }

  startPod(at: number): void {
    this.pods[at] = new Pod(this, `pod ${at}`, this.#random.between(1, 2 ** 40));
    this.tell(`pod ${at} starts`);
  }

  crashPod(at: number): void {
    this.pods[at]!.crash();
    this.tell(`pod ${at} is gone`);
  }

  /** A number that no other call of this run is answered. */
  nextSerial(): number {
    return (this.#serial += 1);
  }

  pickAddress(random: Random): ContextAddress {
    return random.chance(this.#hotShare) ? hot : random.pick(addresses);
  }

  /** Any process that runs. */
  pickPod(random: Random): Pod | undefined {
    const alive = this.pods.filter(({ isAlive }) => isAlive);
    return alive.length === 0 ? undefined : random.pick(alive);
  }

  /** Begins something that the end of the run waits for. What it throws is a violation. */
  begin(name: string, work: () => Promise<void>): void {
    this.#busy.set(name, this.time.nowMs());
    work()
      .catch((error: unknown) => this.fail(`${name}: ${error instanceof Error ? error.stack : String(error)}`))
      .finally(() => this.#busy.delete(name));
  }
}
