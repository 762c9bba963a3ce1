/** Holds Postgres to the promises of the log's store: `main.ts <url of an empty database>`. Ends with 1 at the first one that is broken. */
import { conformanceCases, runCase } from "./conformance.js";
import { PostgresUnderTest } from "./postgres-under-test.js";

process.on("unhandledRejection", (error) => {
  process.stdout.write(`broken: ${String(error)}\n`);
  process.exit(1);
});
const subject = await PostgresUnderTest.make(process.argv[2]!);
for (const one of conformanceCases) {
  try {
    await runCase(one, subject);
  } catch (error) {
    process.stdout.write(`broken: ${one.name}: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  }
}
await subject.close();
