/**
 * The stack's NATS: JetStream on disk and one user per service, each with the subjects its row names and its own inbox.
 */
import { join } from "node:path";
import { NatsServer, type NatsUser } from "@iterate-platform/testing/nats-server";
import type { ServiceRow } from "./services.js";
import { secretFile, type StatePaths } from "./state.js";

export interface Broker {
  server: NatsServer | undefined;
  /** The variables a service connects with; none for one without a user. */
  variablesFor(row: ServiceRow): Readonly<Record<string, string>>;
}

export interface BrokerOptions {
  state: StatePaths;
  rows: readonly ServiceRow[];
  port: number;
  /** A server that runs already (NATS_URL); the stack starts none then, and its users are its owner's concern. */
  externalUrl: string | undefined;
  onLine: (line: string) => void;
}

export async function startBroker(options: BrokerOptions): Promise<Broker> {
  const { externalUrl, state, rows, port, onLine } = options;
  if (externalUrl !== undefined) return { server: undefined, variablesFor: (row) => (row.broker ? { NATS_URL: externalUrl } : {}) };
  const users = rows.flatMap((row) => userOf(row, state));
  const server = await NatsServer.start({ folder: state.natsFolder, port, jetstream: true, users, onLine });
  return {
    server,
    variablesFor: (row) => {
      const found = users.find(({ user }) => user === row.name);
      return found === undefined ? {} : { NATS_URL: server.url, NATS_USER: found.user, NATS_PASSWORD: found.password };
    },
  };
}

function userOf(row: ServiceRow, state: StatePaths): NatsUser[] {
  if (row.broker === undefined) return [];
  return [
    {
      user: row.name,
      password: secretFile(join(state.natsFolder, `${row.name}.password`)),
      permissions: { publish: row.broker.publish, subscribe: [...row.broker.subscribe, `_INBOX.${row.name}.>`] },
    },
  ];
}
