/** A context server with the append methods alone, and clients of it that act for different services. */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  AppendRequest,
  ContextServiceClient,
  ContextServiceService,
  type AppendStreamRequest,
} from "@iterate-platform/proto/iterate/context/v1/context";
import { EventInput } from "@iterate-platform/proto/iterate/type/v1/event";
import { createClient, type ServiceClient } from "@iterate-platform/service/grpc-client";
import { createGrpcServer, type GrpcServer } from "@iterate-platform/service/grpc-server";
import { uuidv7 } from "@iterate-platform/service/ids";
import { generateKeys } from "@iterate-platform/service/keys";
import { createLog } from "@iterate-platform/service/log";
import { Trust } from "@iterate-platform/service/trust";
import { chainNames } from "../caller/writer.js";
import { owner, type TestEngine } from "../log/engine.fixture.js";
import { appendHandlers, appendRules } from "./append.js";

export type ContextClient = ServiceClient<typeof ContextServiceService>;

export interface AppendServer {
  readonly server: GrpcServer;
  readonly trusts: Record<"ingress" | "runner" | "telemetry" | "context", Trust>;
  clientOf(service: "ingress" | "runner" | "telemetry"): ContextClient;
  stop(): Promise<void>;
}

export async function startAppendServer(engine: TestEngine): Promise<AppendServer> {
  const services = ["ingress", "runner", "telemetry", "context"] as const;
  const files = await generateKeys({ directory: await mkdtemp(join(tmpdir(), "context-")), services: [...services] });
  const load = (service: string): Promise<Trust> =>
    Trust.load({ service, keyFile: files.keyFile(service), trustedKeysFile: files.trustedKeysFile });
  const [ingress, runner, telemetry, context] = await Promise.all(services.map(load));
  const trusts = { ingress: ingress!, runner: runner!, telemetry: telemetry!, context: context! };
  const server = createGrpcServer({
    name: "context",
    listen: { variable: "GRPC_LISTEN", host: "127.0.0.1", port: 0 },
    log: createLog("context", { write: () => undefined }),
    trust: trusts.context,
  });
  server.add(
    ContextServiceService,
    appendHandlers({
      appender: engine.appender,
      newChain: chainNames({ nowMs: Date.now, random: Math.random }),
      traceparent: () => null,
      verifyExecution: (token) => trusts.context.verifyExecution(token),
      onFault: (error) => void engine.faults.push(error),
    }),
    appendRules,
  );
  const port = await server.start();
  const clients: ContextClient[] = [];
  return {
    server,
    trusts,
    clientOf: (service) => {
      const client = createClient(ContextServiceClient, `http://127.0.0.1:${port}`, {
        trust: trusts[service],
        audience: "context",
      });
      clients.push(client);
      return client;
    },
    stop: async () => {
      for (const client of clients) client.close();
      await server.drain(1_000);
    },
  };
}

/** An append request of events with these payloads. */
export function appendOf(path: string, payloads: readonly unknown[], event: Partial<EventInput> = {}): AppendRequest {
  return AppendRequest.fromPartial({
    context: { owner, path },
    appendId: uuidv7(),
    events: payloads.map((payload) =>
      EventInput.fromPartial({ type: "example.com/happened", payload: Buffer.from(JSON.stringify(payload)), ...event }),
    ),
  });
}

/** A message of a stream. */
export function messageOf(appends: readonly AppendRequest[], { stopOnError = false, execution = "" } = {}): AppendStreamRequest {
  return { items: appends.map((append) => ({ append, execution, traceparent: "" })), stopOnError };
}
