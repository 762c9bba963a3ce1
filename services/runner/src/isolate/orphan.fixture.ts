/** A supervisor for a test to kill: starts one isolate that loops, says its pid, and waits. */
import { processorBundle, run, startIsolate } from "./isolate.fixture.js";

const isolate = await startIsolate(processorBundle("for (;;);"), { loopMs: 60_000, hangMs: 120_000 });
process.stdout.write(`${isolate.pid}\n`);
await run(isolate, { deadlineMs: 60_000 });
