/** A supervisor for a test to kill: starts one isolate that loops, says its pid once it does, and waits. */
import { processorBundle, run, startIsolate } from "./isolate.fixture.js";
import { readProcessStat } from "./process-stat.js";

const isolate = await startIsolate(processorBundle("for (;;);"), { loopMs: 60_000, hangMs: 120_000 });
const idleMs = readProcessStat(isolate.pid)!.cpuMs;
const watch = setInterval(() => {
  if (readProcessStat(isolate.pid)!.cpuMs < idleMs + 200) return;
  clearInterval(watch);
  process.stdout.write(`${isolate.pid}\n`);
}, 20);
await run(isolate, { deadlineMs: 60_000 });
