/** A small service for the tests of `runService`, started as a process of its own; `SCENARIO` says how it misbehaves. */
import { defineConfig, oneOf } from "./config.js";
import { EchoService, openRules } from "./grpc-echo.fixture.js";
import { createHttpServer } from "./http-server.js";
import { runService } from "./service.js";

const scenarios = ["well", "throws", "rejects", "uncaught", "stuck", "slow-start", "bad-stop", "stalled-loop"] as const;

await runService({
  name: "echo",
  config: defineConfig({ scenario: oneOf("SCENARIO", scenarios, { description: "What goes wrong.", default: "well" }) }),
  ...(process.env["DATABASE_URL"] === undefined ? {} : { postgres: { max: 2 } }),
  ...(process.env["MIGRATIONS"] === undefined ? {} : { migrationsDir: process.env["MIGRATIONS"] }),
  nats: process.env["NATS_URL"] !== undefined,
  main: async (runtime) => {
    const { scenario } = runtime.config;
    if (scenario === "throws") throw new Error("main threw");
    if (scenario === "rejects") void Promise.reject(new Error("nobody handles this"));
    if (scenario === "slow-start") {
      runtime.log.info("composing");
      await new Promise(() => {});
    }
    if (scenario === "stalled-loop") runtime.readiness.progress("stalled", 50);
    runtime.grpc.add(
      EchoService,
      {
        unary: async (request, call) => {
          if (request.text === "uncaught")
            setImmediate(() => {
              throw new Error("thrown past everyone");
            });
          if (request.text === "stuck") await new Promise(() => {});
          if (request.text === "until-stopping") await new Promise((resolve) => call.draining.addEventListener("abort", resolve));
          return { text: `${request.text} by ${call.caller.service}` };
        },
      },
      openRules,
    );
    const http = createHttpServer({
      name: runtime.name,
      listen: { variable: "HTTP_LISTEN", host: "127.0.0.1", port: 0 },
      log: runtime.log,
      handler: (_request, response) => void response.end("hello"),
    });
    runtime.addListener("http", http);
    for (const step of ["first", "second"]) {
      runtime.onStop(step, async () => {
        if (scenario === "bad-stop" && step === "second") throw new Error("cannot stop");
        if (scenario === "stuck" && step === "second") await new Promise(() => {});
        runtime.log.info(`step ${step}`);
      });
    }
    runtime.stopping.addEventListener("abort", () => runtime.log.info("loops told"));
  },
});
