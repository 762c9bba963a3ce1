/**
 * The server under test, in a process of its own: `<database url> <keys folder>`. Serves the append methods on one port, and on
 * another the same methods over an appender that answers without a log, which is what gRPC alone costs. Prints both ports.
 */
import { ContextServiceService } from "@iterate-platform/proto/iterate/context/v1/context";
import { createGrpcServer } from "@iterate-platform/service/grpc-server";
import { keyFiles } from "@iterate-platform/service/keys";
import { createLog } from "@iterate-platform/service/log";
import { Trust } from "@iterate-platform/service/trust";
import { appendHandlers, appendRules } from "../src/api/append.js";
import { chainNames } from "../src/caller/writer.js";
import type { Appender } from "../src/log/contract.js";
import { startEngine } from "./engine.js";

const [url, keys] = process.argv.slice(2) as [string, string];
const files = keyFiles(keys);
const trust = await Trust.load({ service: "context", keyFile: files.keyFile("context"), trustedKeysFile: files.trustedKeysFile });
const engine = startEngine(url);
const echo: Appender = {
  append: ({ events }) =>
    Promise.resolve(events.map((_, index) => ({ offset: index + 1, createdAtUs: 1_900_000_000_000_000, existing: false }))),
};

const serve = async (appender: Appender): Promise<number> => {
  const server = createGrpcServer({
    name: "context",
    listen: { variable: "GRPC_LISTEN", host: "127.0.0.1", port: 0 },
    log: createLog("context"),
    trust,
  });
  const newChain = chainNames({ nowMs: Date.now, random: Math.random });
  server.add(
    ContextServiceService,
    appendHandlers({
      appender,
      newChain,
      traceparent: () => null,
      verifyExecution: (token) => trust.verifyExecution(token),
      onFault: console.error,
    }),
    appendRules,
  );
  return await server.start();
};
console.log(JSON.stringify({ append: await serve(engine.appender), echo: await serve(echo) }));
// An orderly end, so that a profile asked for by --cpu-prof is written.
process.once("SIGTERM", () => process.exit(0));
