/**
 * `make demo`: starts the stack, does the main job on real input, says what to try next and keeps running. `ONESHOT=1` ends after the
 * last step instead: exit code 0 when every step held, 1 when one did not.
 */
import { demonstrate, type Demonstrated } from "./demo/demo.js";
import { startStack, type Stack } from "./stack.js";

const isOneShot = process.env.ONESHOT === "1";
const hardStopMs = 40_000;

const say = (line: string): void => void process.stdout.write(`${line}\n`);

function tryNext({ project, pageUrl, contextPath }: Demonstrated, stack: Stack): void {
  for (const line of [
    "",
    "Try next, in another terminal:",
    `  tools/iterate events read --project ${project} --context ${contextPath} --type events.example.com/triage/item-labeled`,
    `  tools/iterate events tail --project ${project} --context ${contextPath} --after 0`,
    `  tools/iterate logs --project ${project} --since 1h`,
    `  curl ${pageUrl}state.json`,
    `  git clone -c credential.helper='!f() { echo username=token; echo "password=$(cat ${stack.state.adminTokenFile})"; }; f' \\`,
    `    http://localhost:${stack.ports.of("public-http")}/git/${project}/config.git`,
    "",
    "  docs/guides/first-project.md writes a second processor, step by step",
    "",
    "Running until Ctrl-C.",
  ])
    say(line);
}

async function main(): Promise<number> {
  const startedAt = performance.now();
  const interrupted = new Promise<"interrupted">((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve("interrupted"));
  });
  let failedService: string | null = null;
  const stack = await startStack({
    ...(isOneShot ? { state: "temporary", portBase: "auto" as const } : {}),
    onFailed: (source, lastLines) => (failedService = `${source} died too often; its last lines:\n${lastLines}`),
  });
  try {
    say(
      `the platform runs on this machine: Postgres, NATS and ${stack.rows.map(({ name }) => name).join(", ")} (${((performance.now() - startedAt) / 1000).toFixed(1)} s)`,
    );
    const shown = await Promise.race([demonstrate(stack, say), interrupted]);
    if (shown === "interrupted") return 1;
    say(`done in ${((performance.now() - startedAt) / 1000).toFixed(1)} s: every step held`);
    if (!isOneShot) {
      tryNext(shown, stack);
      await interrupted;
    }
    return 0;
  } finally {
    if (failedService !== null) say(failedService);
    setTimeout(() => process.exit(1), hardStopMs).unref();
    await stack.stop();
  }
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    process.stderr.write(`demo: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  },
);
