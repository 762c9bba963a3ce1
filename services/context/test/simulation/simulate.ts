/** One run: everything in it is decided by its seed. */
import { runAsker } from "./askers.js";
import { runChaos } from "./chaos.js";
import { Random } from "./random.js";
import { runFeedReader, runFollower, runReader } from "./readers.js";
import { addresses, partitions } from "./scenery.js";
import { runSchedulesAtRest } from "./schedules.js";
import { VirtualTime } from "./virtual-time.js";
import { runWaiter } from "./waiters.js";
import { World } from "./world.js";
import { WriterClient } from "./writer-client.js";

/** How long clients begin new work, and how long the rest may take when nothing is disturbed any more. */
const openMs = 10_000;
const settleMs = 90_000;

export interface Run {
  readonly seed: number;
  /** What was found wrong first, and what happened before it. */
  readonly violation: string | undefined;
  readonly commits: number;
  /** Occurrences of schedules. */
  readonly fired: number;
  readonly story: readonly string[];
}

export async function simulate(seed: number): Promise<Run> {
  const random = new Random(seed);
  const time = new VirtualTime();
  const world = new World(time, random);
  const podCount = random.between(2, 3);
  for (let at = 0; at < podCount; at += 1) world.startPod(at);
  const writers = Array.from({ length: random.between(2, 8) }, (_, at) => new WriterClient(world, random.fork(), `writer ${at}`));
  const actors: (readonly [name: string, run: (random: Random) => Promise<void>])[] = [
    ...writers.map((writer, at) => [`writer ${at}`, () => writer.run()] as const),
    ...numbered(random.between(1, 3), "reader", (random, name) => runReader(world, random, name)),
    ...numbered(random.between(1, 3), "follower", (random, name) => runFollower(world, random, name)),
    ...numbered(random.between(0, 2), "asker", (random, name) => runAsker(world, random, name)),
    ...numbered(random.between(0, 2), "waiter", (random, name) => runWaiter(world, random, name)),
    ...partitions.map((partition) => [`feed ${partition}`, (random: Random) => runFeedReader(world, random, partition)] as const),
    ["schedules", () => runSchedulesAtRest(world)],
    ["chaos", (random) => runChaos(world, random, () => writers.forEach((writer) => writer.restored()))],
  ];
  for (const [name, run] of actors) {
    const own = random.fork();
    world.begin(name, () => run(own));
  }
  time.after(openMs, () => {
    world.tell("clients begin nothing new, and nothing is disturbed any more");
    world.isOpen = false;
    world.weather.isCalm = true;
  });
  try {
    await time.run(() => world.violation !== undefined || world.busy.length === 0, openMs + settleMs);
    await settle(world, time);
  } catch (error) {
    world.fail(`${error instanceof Error ? error.message : String(error)}; busy: ${world.busy.join(", ")}`);
  }
  for (const pod of world.pods) pod.crash();
  const commits = [...world.log.contexts].reduce((sum, { commits }) => sum + commits.size, 0);
  for (const writer of world.violation === undefined ? writers : []) writer.checkAll();
  return { seed, violation: world.violation, commits, fired: world.schedules.fired, story: world.story };
}

/** At rest every process agrees with the log. */
async function settle(world: World, time: VirtualTime): Promise<void> {
  if (world.violation !== undefined) return;
  world.truth.checkTypes();
  world.truth.checkCoreRows();
  for (const pod of world.pods) {
    world.begin(pod.name, async () => {
      // What clients left behind may still land.
      const before = addresses.map((address) => world.truth.commitNoOf(address));
      const heads = await Promise.all(addresses.map((address) => pod.heads.confirm(address)));
      for (const [at, head] of heads.entries()) {
        const { path } = addresses[at]!;
        world.require(
          (head?.commitNo ?? 0) >= before[at]!,
          () => `${pod.name} knows ${path} as of ${head?.commitNo}, not ${before[at]}`,
        );
        if (head !== undefined) world.truth.checkHead(pod.name, head);
      }
    });
  }
  await time.run(() => world.violation !== undefined || world.busy.length === 0, settleMs);
}

function numbered(count: number, kind: string, run: (random: Random, name: string) => Promise<void>) {
  return Array.from({ length: count }, (_, at) => [`${kind} ${at}`, (random: Random) => run(random, `${kind} ${at}`)] as const);
}
