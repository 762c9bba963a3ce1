/**
 * Runs seeds: `main.ts <first> [<count>]`, the default 1 of 1. Ends with 1 at the first seed that finds something wrong, and prints it
 * with what happened before.
 */
import { simulate } from "./simulate.js";

const first = Number(process.argv[2] ?? 1);
const count = Number(process.argv[3] ?? 1);
if (!Number.isSafeInteger(first) || !Number.isSafeInteger(count)) throw new RangeError("a seed is a whole number");

let commits = 0;
for (let seed = first; seed < first + count; seed += 1) {
  const run = await simulate(seed);
  commits += run.commits;
  if (run.violation === undefined) continue;
  process.stdout.write(`seed ${seed}: ${run.violation}\n\nmake simulate SEED=${seed} runs it again\n`);
  process.exit(1);
}
process.stdout.write(`${count} runs from seed ${first}, ${commits} commits, nothing wrong\n`);
