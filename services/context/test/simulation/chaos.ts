/** What befalls a deployment: processes that are gone and come back, a database that is away or restored, a broker that is lost. */
import type { Random } from "./random.js";
import { spoilDueRow } from "./schedules.js";
import type { World } from "./world.js";

/** How far back a restore goes at most, in changes. */
const mostLost = 40;

export async function runChaos(world: World, random: Random, onRestored: () => void): Promise<void> {
  const { time, log } = world;
  const everyMs = random.pick([400, 2_000, undefined]);
  if (everyMs === undefined) return;
  let isToRestore = random.chance(0.35);
  while (world.isOpen) {
    await time.sleep(random.between(everyMs / 2, everyMs * 2));
    if (!world.isOpen) return;
    switch (random.between(0, 6)) {
      case 0:
        await crashOne(world, random);
        break;
      case 1:
        await loseDatabase(world, random, random.chance(0.5));
        break;
      case 2:
        await loseBroker(world, random);
        break;
      case 3:
        if (isToRestore && log.length > 30) {
          isToRestore = false;
          await restore(world, random);
          onRestored();
        }
        break;
      case 4:
        spoilDueRow(world, random);
        break;
      default:
        await holdTransaction(world, random);
    }
  }
}

async function crashOne(world: World, random: Random): Promise<void> {
  const at = random.between(0, world.pods.length - 1);
  world.crashPod(at);
  await world.time.sleep(random.between(1, 800));
  world.startPod(at);
}

/** Connections are refused for a while; what runs goes on, or ends when the server itself stops. */
async function loseDatabase(world: World, random: Random, isStopped: boolean): Promise<void> {
  world.tell(isStopped ? "the database stops" : "the database is away");
  world.isAway = true;
  if (isStopped) world.log.stop();
  await world.time.sleep(random.pick([100, 1_000, 9_000]));
  world.isAway = false;
  world.tell("the database is back");
}

async function loseBroker(world: World, random: Random): Promise<void> {
  const { connection } = random.pick(world.pods);
  connection.disconnect();
  await world.time.sleep(random.between(10, 1_500));
  connection.reconnect();
}

/** Somebody's transaction stays open: the feed is held back. */
async function holdTransaction(world: World, random: Random): Promise<void> {
  const transaction = world.log.begin();
  world.log.identify(transaction);
  await world.time.sleep(random.between(10, 1_500));
  if (!transaction.isOver) world.log.abort(transaction);
}

/** By the runbook: processes are stopped, the database is restored, its generation is raised, processes are started. */
async function restore(world: World, random: Random): Promise<void> {
  world.isAway = true;
  for (const at of world.pods.keys()) world.crashPod(at);
  await world.time.sleep(random.between(1, 500));
  world.truth.restoring();
  const kept = world.log.length - random.between(1, Math.min(mostLost, world.log.length - 5));
  world.tell(`the database is restored to ${kept} of ${world.log.length} changes`);
  world.log.restore(kept, true);
  world.restores += 1;
  world.truth.restored();
  world.schedules.restored();
  world.isAway = false;
  for (const at of world.pods.keys()) world.startPod(at);
}
