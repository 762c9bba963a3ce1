import { connect } from "@nats-io/transport-node";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { expect, test } from "vitest";
import { useNats } from "./fixture.js";
import { startNats } from "./nats.js";

const nats = useNats({ jetstream: true });

test("stored messages survive a kill and a start on the same port, and are gone when the data is lost", async () => {
  const first = await connect({ servers: nats.url });
  await (await jetstreamManager(first)).streams.add({ name: "KEPT", subjects: ["kept.*"] });
  await jetstream(first).publish("kept.one", "hello");
  await first.close();
  await nats.server.kill();
  await expect(connect({ servers: nats.url, reconnect: false })).rejects.toThrow();
  await nats.server.start();
  const second = await connect({ servers: nats.url });
  expect((await (await jetstreamManager(second)).streams.info("KEPT")).state.messages).toBe(1);
  await second.close();
  await nats.server.kill();
  nats.server.loseData();
  await nats.server.start();
  const third = await connect({ servers: nats.url });
  await expect((await jetstreamManager(third)).streams.info("KEPT")).rejects.toThrow(/stream not found/);
  await third.close();
});

test("a user is refused every subject its permissions do not name", async () => {
  const server = await startNats({
    users: [{ user: "context", password: "secret", permissions: { publish: ["ctx.*"], subscribe: ["_INBOX.>"] } }],
  });
  try {
    await expect(connect({ servers: server.url, reconnect: false })).rejects.toThrow(/Authorization/i);
    const connection = await connect({ servers: server.url, user: "context", pass: "secret" });
    const refusals: string[] = [];
    void (async () => {
      for await (const status of connection.status()) if (status.type === "error") refusals.push(status.error.message);
    })();
    connection.publish("ctx.1", "allowed");
    connection.publish("lend.1", "refused");
    await connection.flush();
    await expect.poll(() => refusals).toEqual([expect.stringMatching(/Publish to "lend\.1"/)]);
    await connection.close();
  } finally {
    await server.stop();
  }
});
