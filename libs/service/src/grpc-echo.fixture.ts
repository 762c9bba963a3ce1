/** A service of all four kinds with JSON messages, in the shape ts-proto generates, for the tests of server and client. */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, type ClientOptions, type ServiceClient } from "./grpc-client.js";
import { createGrpcServer, type GrpcServer, type GrpcServerOptions, type Handlers, type MethodRules } from "./grpc-server.js";
import { generateKeys } from "./keys.js";
import { createLog } from "./log.js";
import { Trust } from "./trust.js";

export interface Note {
  readonly text: string;
}

const method = <const RequestStream extends boolean, const ResponseStream extends boolean>(
  name: string,
  requestStream: RequestStream,
  responseStream: ResponseStream,
) => ({
  path: `/iterate.test.v1.EchoService/${name}`,
  requestStream,
  responseStream,
  requestSerialize: (value: Note): Buffer => Buffer.from(JSON.stringify(value)),
  requestDeserialize: (bytes: Buffer): Note => JSON.parse(bytes.toString()) as Note,
  responseSerialize: (value: Note): Buffer => Buffer.from(JSON.stringify(value)),
  responseDeserialize: (bytes: Buffer): Note => JSON.parse(bytes.toString()) as Note,
});

export const EchoService = {
  unary: method("Unary", false, false),
  serverStream: method("ServerStream", false, true),
  clientStream: method("ClientStream", true, false),
  bidi: method("Bidi", true, true),
} as const;

export const EchoClient = { service: EchoService, serviceName: "iterate.test.v1.EchoService" };

export type EchoHandlers = Handlers<typeof EchoService>;

const anyone = { services: ["caller"], execution: "allowed" } as const;
export const openRules: MethodRules<typeof EchoService> = {
  unary: anyone,
  serverStream: anyone,
  clientStream: anyone,
  bidi: anyone,
};

let keys: Promise<{ caller: Trust; echo: Trust; runner: Trust }> | null = null;

/** Trust of the services `caller`, `echo` and `runner` over one set of keys. */
export function echoTrust(): Promise<{ caller: Trust; echo: Trust; runner: Trust }> {
  keys ??= (async () => {
    const files = await generateKeys({ directory: await mkdtemp(join(tmpdir(), "echo-")), services: ["caller", "echo", "runner"] });
    const load = (service: string): Promise<Trust> =>
      Trust.load({ service, keyFile: files.keyFile(service), trustedKeysFile: files.trustedKeysFile });
    const [caller, echo, runner] = await Promise.all([load("caller"), load("echo"), load("runner")]);
    return { caller, echo, runner };
  })();
  return keys;
}

export interface Echo {
  readonly server: GrpcServer;
  readonly client: ServiceClient<typeof EchoService>;
  readonly port: number;
  /** Log lines of the server. */
  readonly lines: string[];
  readonly connect: (options?: Partial<ClientOptions>, port?: number) => ServiceClient<typeof EchoService>;
  readonly stop: () => Promise<void>;
}

/** A running echo server and a client of it. */
export async function startEcho(
  handlers: EchoHandlers,
  options: Partial<GrpcServerOptions> = {},
  rules: MethodRules<typeof EchoService> = openRules,
): Promise<Echo> {
  const trust = await echoTrust();
  const lines: string[] = [];
  const server = createGrpcServer({
    name: "echo",
    listen: { variable: "GRPC_LISTEN", host: "127.0.0.1", port: 0 },
    log: createLog("echo", { write: (line) => lines.push(line) }),
    trust: trust.echo,
    ...options,
  });
  server.add(EchoService, handlers, rules);
  const port = await server.start();
  const clients: { close(): void }[] = [];
  const connect: Echo["connect"] = (more = {}, to = port) => {
    const client = createClient(EchoClient, `http://127.0.0.1:${to}`, { trust: trust.caller, audience: "echo", ...more });
    clients.push(client);
    return client;
  };
  const stop = async (): Promise<void> => {
    for (const client of clients) client.close();
    await server.drain(0);
  };
  return { server, client: connect(), port, lines, connect, stop };
}
