/** The end of a run for schedules: what is due then is fired soon, whatever happened before. */
import type { Random } from "./random.js";
import { dueName } from "./simulated-log.js";
import type { World } from "./world.js";

/** Longest time until everything that is due has been fired, when nothing is disturbed. */
const settleMs = 60_000;

/** Waits for the end of the run, and then until nothing is overdue. */
export async function runSchedulesAtRest(world: World): Promise<void> {
  while (world.isOpen) await world.time.sleep(500);
  const untilMs = world.time.nowMs() + settleMs;
  // What was due at the end is overdue only after a while.
  await world.time.sleep(settleMs / 2);
  while (world.schedules.overdue().length > 0 && world.time.nowMs() < untilMs) await world.time.sleep(500);
  world.require(world.schedules.overdue().length === 0, () => `nobody has fired ${world.schedules.overdue().join(", ")}`);
}

/** A hand in the database: a due row is gone, or is due when it should not be. */
export function spoilDueRow(world: World, random: Random): void {
  const rows = [...world.log.due.values()];
  if (rows.length === 0) return;
  const row = random.pick(rows);
  const isGone = random.chance(0.6);
  world.tell(`the due row ${row.key} of ${row.contextId} is ${isGone ? "gone" : "due at once"}`);
  if (isGone) world.log.due.delete(dueName(row.contextId, row.key));
  else row.dueUs = 0;
}
