/**
 * Calls through a table of 300 rules as a ratio to calls through one, each with its context confirmed in the database as every call is.
 * Run by `make bench`, compiled: <admin url of a Postgres> [rounds] [seconds].
 */
import { evaluate } from "@iterate-platform/service/capability-calls";
import { itx } from "iterate/events";
import { parseExpression } from "iterate/expression";
import type { Writer } from "../src/caller/contract.js";
import { identityRoots } from "../src/invoke/roots/identity.js";
import { Resolver } from "../src/invoke/resolver.js";
import { HeadConfirmer } from "../src/log/confirm.js";
import { vocabularyOfRoots } from "../src/rules/roots.js";
import { makeDatabase } from "./database.js";
import { startEngine } from "./engine.js";
import { runLoad } from "./load.js";
import { median } from "./statistics.js";

const adminUrl = process.argv[2]!;
const rounds = Number(process.argv[3] ?? 5);
const durationMs = Number(process.argv[4] ?? 2) * 1_000;
const inFlight = 64;
/** Turns of each in a round. */
const slices = 20;
const owner = "prj_00000000000000000000000000";
const expression = parseExpression('itx.tool150.ask("k")');
const writer: Writer = {
  kind: "service",
  origin: null,
  cause: { chain: "2030-01-01T00:00:00.000Z with service ~12345678", depth: 0 },
  principal: null,
  isPlatform: true,
  owner: null,
  lease: null,
};

const database = await makeDatabase(adminUrl);
const engine = startEngine(database.url);
try {
  await configure("/one", [150]);
  await configure(
    "/many",
    Array.from({ length: 300 }, (_, at) => at),
  );
  const heads = new HeadConfirmer(engine.cache);
  const resolver = new Resolver({ heads, roots: vocabularyOfRoots });
  const whoami = identityRoots({ heads, urlOf: (slug) => slug }).find(({ name }) => name === "whoami")!;
  const perSecond = async (path: string): Promise<number> => {
    const call = async (): Promise<unknown> => {
      const { address, steps } = await resolver.resolve({ owner, path }, expression, path);
      return await evaluate(whoami, steps, { address } as never);
    };
    return (await runLoad({ inFlight, durationMs: durationMs / slices, warmUpMs: 20, call })).perSecond;
  };
  const ratios: number[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    const [one, many]: [number[], number[]] = [[], []];
    // In short turns, each first as often as the other: what else the machine does meets both alike.
    for (let slice = 0; slice < slices; slice += 1) {
      const turns: [string, number[]][] = [
        ["/one", one],
        ["/many", many],
      ];
      for (const [path, rates] of slice % 2 === 0 ? turns : turns.reverse()) rates.push(await perSecond(path));
    }
    // The first round warms up.
    if (round === 0) continue;
    ratios.push(median(one) / median(many));
    console.log(`round ${round}: through one rule ${Math.round(median(one))}/s, through 300 ${Math.round(median(many))}/s`);
  }
  console.log(`invoke through 300 rules ÷ one rule, ${inFlight} in flight (must 1.2, aim 1.05): ${median(ratios).toFixed(2)}`);
} finally {
  await engine.close();
  await database.drop();
}

/** Rules in a context, all but one of which do not match. */
async function configure(path: string, numbers: readonly number[]): Promise<void> {
  const events = numbers.map((number) => ({
    type: itx.rewriteRuleConfigured.type,
    payload: Buffer.from(JSON.stringify({ match: `itx.tool${number}.ask("k")`, target: "itx.builtins.whoami()" })),
    metadata: null,
    idempotencyKey: null,
    expectedOffset: null,
    formatVersion: 0,
    processor: null,
    isEphemeral: false,
  }));
  await engine.appender.append({ address: { owner, path }, appendId: null, events, writer, traceparent: null });
}
