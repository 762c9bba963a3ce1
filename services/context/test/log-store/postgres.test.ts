/** Postgres keeps every promise of the log's store. */
import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, test } from "vitest";
import { conformanceCases, runCase } from "./conformance.js";
import { PostgresUnderTest } from "./postgres-under-test.js";

const database = useTestDatabase();
let subject: PostgresUnderTest;
beforeAll(async () => void (subject = await PostgresUnderTest.make(database.url)));
afterAll(() => subject.close());

test.each(conformanceCases.map((one) => [one.name, one] as const))("%s", (_, one) => runCase(one, subject));
