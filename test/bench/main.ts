/**
 * `make bench`: runs every benchmark in turn and writes docs/performance.md with the machine, the commit and the day. A benchmark that
 * fails, or a machine that is busy with something else, publishes nothing.
 */
import { execFileSync, spawn } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { cpus, loadavg, totalmem } from "node:os";
import { basename, join, resolve } from "node:path";
import { durableSettings, startPrivatePostgres } from "@iterate-platform/testing";
import { buildSync } from "esbuild";

const root = resolve(import.meta.dirname, "../..");
const busyLoad = 1.5;

interface Bench {
  readonly title: string;
  readonly says: string;
  /** A source file; a bench of a service is compiled with the parts of the service it drives, as that is how they run. */
  readonly program: string;
  readonly args: readonly string[];
}

/** The loader of sources gives every closure a name, which costs a busy process a third. */
const compiled = "services/context";

async function main(): Promise<void> {
  const load = loadavg()[0] ?? 0;
  if (load > busyLoad && process.env.BENCH_ANYWAY !== "1") {
    throw new Error(
      `the machine is busy (load ${load.toFixed(1)}): ratios of this run would mean nothing. Wait, or set BENCH_ANYWAY=1 to see them without publishing.`,
    );
  }
  const postgres = await startPrivatePostgres({ settings: durableSettings });
  const benches: Bench[] = [
    {
      title: "Appending",
      says: "Ratios of one run to raw inserts of the same rows (4 connections × 500 rows), to a gRPC echo of the same request, and to one bare insert.",
      program: "services/context/bench/append.ts",
      args: [postgres.adminUrl],
    },
    {
      title: "Two processes",
      says: "Both append to the same contexts, without affinity, against one that has them alone.",
      program: "services/context/bench/pods.ts",
      args: [postgres.adminUrl],
    },
    {
      title: "A large log",
      says: "Appends beside a million contexts and ten million events against appends to an empty database; contexts that are not held in memory.",
      program: "services/context/bench/scale.ts",
      args: [postgres.adminUrl],
    },
    {
      title: "Calls",
      says: "Calls of a builtin through a table of 300 rules against calls through one rule, every one confirmed.",
      program: "services/context/bench/invoke.ts",
      args: [postgres.adminUrl],
    },
    {
      title: "Schedules",
      says: "A backlog of due schedules, fired by a process that takes appends to other contexts all the while.",
      program: "services/context/bench/schedules.ts",
      args: [postgres.adminUrl],
    },
    {
      title: "Reading and following",
      says: "StreamEvents against one `pg` connection that pages the same rows; appends with publication against appends without; how late a live subscriber is.",
      program: "services/context/bench/read.ts",
      args: [],
    },
    {
      title: "Telemetry",
      says: "Spans taken, stored and queryable.",
      program: "services/telemetry/bench/ingest.ts",
      args: [],
    },
    {
      title: "End to end",
      says: "The whole platform on this machine: a client's append, project code in its isolate, what it emitted back at the client.",
      program: "test/bench/end-to-end.ts",
      args: [],
    },
  ];
  const sections: string[] = [];
  try {
    compile();
    for (const bench of benches) {
      process.stdout.write(`\n== ${bench.title} ==\n`);
      sections.push(`## ${bench.title}\n\n${bench.says}\n\n\`\`\`text\n${(await run(bench)).trim()}\n\`\`\`\n`);
    }
  } finally {
    await postgres.stop();
  }
  if (process.env.BENCH_ANYWAY === "1") return;
  writeFileSync(join(root, "docs/performance.md"), page(sections));
  process.stdout.write("\nwritten: docs/performance.md\n");
}

function compile(): void {
  const folder = join(root, compiled, "bench");
  buildSync({
    entryPoints: readdirSync(folder)
      .filter((name) => name.endsWith(".ts"))
      .map((name) => join(folder, name)),
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node24",
    outdir: join(root, compiled, "dist/bench"),
    logLevel: "error",
  });
}

function run({ program, args }: Bench): Promise<string> {
  const start = program.startsWith(`${compiled}/bench/`)
    ? ["--expose-gc", join(root, compiled, "dist/bench", basename(program, ".ts") + ".js")]
    : ["--conditions=iterate-source", "--import", "tsx", join(root, program)];
  return new Promise((done, fail) => {
    const child = spawn(process.execPath, [...start, ...args], { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      process.stdout.write(chunk);
    });
    child.on("error", fail);
    child.on("close", (code) => (code === 0 ? done(text) : fail(new Error(`${program} ended with ${code}; nothing is published`))));
  });
}

function page(sections: readonly string[]): string {
  const commit = execFileSync("git", ["rev-parse", "--short=12", "HEAD"], { cwd: root }).toString().trim();
  const machine = `${cpus().length} × ${cpus()[0]?.model.trim() ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}`;
  return [
    "# Performance",
    "",
    "Written by `make bench`. Only ratios within one run mean anything: the same machine gives other absolute figures at another hour.",
    "",
    `Machine: ${machine}. Commit ${commit}, ${new Date().toISOString().slice(0, 10)}. Postgres with fsync and synchronous commit on.`,
    "",
    ...sections,
  ].join("\n");
}

main().catch((error: unknown) => {
  process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
