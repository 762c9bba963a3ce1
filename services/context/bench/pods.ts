/**
 * Two processes that append to the same contexts without affinity, against one that has them alone: the same number of appends in
 * flight in all, alternated in one run. Run by `make bench`, compiled: <admin url> [rounds] [seconds].
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { EventInput } from "@iterate-platform/proto/iterate/type/v1/event";
import { createClient } from "@iterate-platform/service/grpc-client";
import { uuidv7 } from "@iterate-platform/service/ids";
import { generateKeys } from "@iterate-platform/service/keys";
import { Trust } from "@iterate-platform/service/trust";
import { makeDatabase } from "./database.js";
import { runLoad } from "./load.js";
import { median } from "./statistics.js";
import { ContextServiceClient, StreamAppender, type Client } from "./stream-client.js";

const [adminUrl, rounds = "3", seconds = "3"] = process.argv.slice(2) as [string, string?, string?];
const durationMs = Number(seconds) * 1_000;
const owner = "prj_00000000000000000000000000";
const contexts = 256;
const inFlight = 1_024;
const payload = Buffer.from(JSON.stringify({ text: "x".repeat(188) }));

const keys = await mkdtemp(join(tmpdir(), "bench-keys-"));
const files = await generateKeys({ directory: keys, services: ["ingress", "context"] });
const trust = await Trust.load({ service: "ingress", keyFile: files.keyFile("ingress"), trustedKeysFile: files.trustedKeysFile });
const database = await makeDatabase(adminUrl);
const pods = await Promise.all([startPod(), startPod()]);
try {
  // Births are not what is measured.
  await appendsPerSecond([pods[0]], 1_000);
  const ratios: number[] = [];
  for (let round = 1; round <= Number(rounds); round += 1) {
    const alone = await appendsPerSecond([pods[0]], durationMs);
    const both = await appendsPerSecond(pods, durationMs);
    ratios.push(both / alone);
    console.log(`round ${round}: one process ${kilo(alone)}, two on the same ${contexts} contexts ${kilo(both)}`);
  }
  console.log(`two processes on the same ${contexts} contexts ÷ one (must 0.4, aim 0.7): ${median(ratios).toFixed(2)}`);
} finally {
  for (const pod of pods) {
    pod.client.close();
    pod.child.kill();
  }
  await Promise.all(pods.map(({ child }) => once(child, "exit")));
  await database.drop();
  await rm(keys, { recursive: true });
}

interface Pod {
  readonly child: ChildProcess;
  readonly client: Client;
}

async function startPod(): Promise<Pod> {
  const child = spawn(
    process.execPath,
    ["--max-semi-space-size=64", fileURLToPath(new URL("./server.js", import.meta.url)), database.url, keys],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const [line] = (await once(createInterface(child.stdout), "line")) as [string];
  const { append } = JSON.parse(line) as { append: number };
  return { child, client: createClient(ContextServiceClient, `http://127.0.0.1:${append}`, { trust, audience: "context" }) };
}

async function appendsPerSecond(through: readonly Pod[], forMs: number): Promise<number> {
  const appenders = through.map(({ client }) => new StreamAppender(client, true));
  const { perSecond } = await runLoad({
    inFlight,
    durationMs: forMs,
    warmUpMs: 500,
    call: (index) =>
      appenders[index % appenders.length]!.append({
        // Every process appends to every context.
        context: { owner, path: `/pods/${Math.floor(index / appenders.length) % contexts}` },
        appendId: uuidv7(),
        events: [EventInput.fromPartial({ type: "example.com/bench", payload })],
      }),
  });
  for (const appender of appenders) appender.end();
  return perSecond;
}

function kilo(perSecond: number): string {
  return `${(perSecond / 1_000).toFixed(1)}k/s`;
}
