/** A process whose one HTTP request goes HTTP → gRPC → Postgres and NATS → consumer → Postgres, for the test of its traces. */
import { codedError } from "iterate/lib";
import { startEcho } from "./grpc-echo.fixture.js";
import { createHttpServer } from "./http-server.js";
import { createLog } from "./log.js";
import { connectBroker } from "./nats.js";
import { createPool } from "./postgres.js";
import { telemetry } from "./telemetry.js";
import { currentTraceparent, linksFrom, withNewRoot, withRemoteParent, withSpan } from "./tracing.js";

const log = createLog("traced");
const pool = createPool({ url: process.env["DATABASE_URL"]!, applicationName: "traced", max: 2 });
const broker = connectBroker({ url: process.env["NATS_URL"]!, name: "traced", log });
const echo = await startEcho(
  {
    unary: async (request) => {
      if (request.text === "fail") throw codedError("STALE_EPOCH", "epoch 3 < 4");
      await pool.query("select 1 as called");
      return request;
    },
  },
  { foreignTraces: false },
);
const publicEcho = await startEcho({ unary: (request) => Promise.resolve(request) }, { foreignTraces: true });

broker.subscribe("note", (message) => {
  const traceparent = message.string();
  void withRemoteParent(traceparent, () =>
    withSpan("process note", { kind: "consumer", attributes: { owner: "prj_1" } }, () => pool.query("select 2 as consumed")),
  );
  void withNewRoot("deliver note", { kind: "consumer", links: linksFrom([traceparent, "malformed"]) }, () =>
    pool.query("select 3 as delivered"),
  );
});
await broker.flush();

const server = createHttpServer({
  name: "traced",
  listen: { variable: "HTTP_LISTEN", host: "127.0.0.1", port: 0 },
  log,
  foreignTraces: true,
  handler: async (request, response) => {
    if (request.url === "/fail") await echo.client.unary({ text: "fail" });
    if (request.url === "/public") await publicEcho.client.unary({ text: "" });
    await echo.client.unary({ text: "" });
    withSpan("send note", { kind: "producer" }, () => broker.publish("note", currentTraceparent()));
    await broker.flush();
    log.info("handled", { owner: "prj_1" });
    response.end(currentTraceparent());
  },
});
const port = await server.start();
await pool.query("select 4 as without_a_parent");
process.stdout.write(`${port}\n`);
process.on("SIGTERM", () => {
  void (async () => {
    await telemetry()?.shutdown(5_000);
    process.stdout.write(JSON.stringify(telemetry()?.counts() ?? null));
    process.exit(0);
  })();
});
