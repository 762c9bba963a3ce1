/**
 * `make up`: runs the stack in the foreground until Ctrl-C, SIGTERM, or a service that cannot be kept alive. Lines of the services
 * at warn and above are shown; all of them are in the state folder's `logs`.
 */
import { startStack, type Stack } from "./stack.js";

const hardStopMs = 40_000;

async function main(): Promise<number> {
  const startedAt = performance.now();
  let stack: Stack | undefined;
  const ended = new Promise<number>((resolve) => {
    let isStopping = false;
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      process.on(signal, () => {
        if (isStopping) process.exit(1);
        isStopping = true;
        say(`${signal}: stopping; once more to stop at once`);
        resolve(0);
      });
    }
    startStack({
      onLine: show,
      onFailed: (source, lastLines) => {
        say(`${source} died more than 10 times within a minute; stopping. Its last lines:\n${lastLines}`);
        resolve(1);
      },
    }).then(
      (started) => {
        stack = started;
        announce(started, performance.now() - startedAt);
      },
      (error: unknown) => {
        say(error instanceof Error ? error.message : String(error));
        resolve(1);
      },
    );
  });
  const code = await ended;
  setTimeout(() => process.exit(1), hardStopMs).unref();
  await stack?.stop();
  return code;
}

function announce(stack: Stack, tookMs: number): void {
  const services = stack.rows.map(({ name }) => name).join(", ") || "no service";
  say(`ready in ${(tookMs / 1000).toFixed(1)} s: ${services}`);
  say(`  API              http://localhost:${stack.ports.of("public-http")}`);
  say(`  public gRPC      localhost:${stack.ports.of("public-grpc")}`);
  say(`  project pages    ${stack.url("projects")}`);
  say(`  admin token      ${stack.state.adminTokenFile}`);
  say(`  logs             ${stack.state.logsFolder}`);
}

function show(source: string, line: string): void {
  if (source === "postgres" || source === "nats") return;
  if (/"level":"(debug|info)"/.test(line)) return;
  say(`${source} | ${line}`);
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

process.exit(await main());
