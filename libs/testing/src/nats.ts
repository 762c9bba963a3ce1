/**
 * Real NATS for tests: a server of the caller's own, up in some tens of milliseconds, that can be killed, frozen and started again.
 */
import { rmSync } from "node:fs";
import { NatsServer, type NatsUser } from "./nats-server.js";
import { scratchFolder } from "./scratch.js";

export interface NatsOptions {
  jetstream?: boolean;
  users?: readonly NatsUser[];
  port?: number;
}

export interface TestNats {
  /** `nats://127.0.0.1:<port>`, the same over restarts. */
  url: string;
  readonly server: NatsServer;
  /** Ends it as a power cut would; its files stay. */
  kill(): Promise<void>;
  /** Starts it again on the same port and files. */
  start(): Promise<void>;
  /** Removes every stored message: what is left of a broker that lost its disk. The server must not run. */
  loseData(): void;
  stop(): Promise<void>;
}

/** Starts a private server, which the caller must `stop`. */
export async function startNats(options: NatsOptions = {}): Promise<TestNats> {
  const folder = scratchFolder("nats");
  const server = await NatsServer.start({ folder, ...options });
  return {
    url: server.url,
    server,
    kill: () => server.kill(),
    start: () => server.start(),
    loseData: () => rmSync(`${folder}/jetstream`, { recursive: true, force: true }),
    stop: async () => {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
