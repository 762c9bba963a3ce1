import { once } from "node:events";
import { connect, type AddressInfo, type Socket } from "node:net";
import type { Server } from "node:http";
import { afterEach, beforeEach, expect, test } from "vitest";
import { egressListener } from "./egress-listener.js";

let server: Server;
let records: [string, number | undefined][];
beforeEach(async () => {
  records = [];
  server = egressListener(({ level, message }, ordinal) => records.push([`${level} ${message}`, ordinal]));
  await once(server.listen(0, "127.0.0.1"), "listening");
});
afterEach(() => {
  server.close();
  server.closeAllConnections();
});

async function say(request: string): Promise<string> {
  const socket: Socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  socket.write(request);
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

test.each([
  [
    "a request in a proxy's style",
    "GET https://api.example/secret?token=1 HTTP/1.1\r\nx-iterate-ordinal: 7\r\n\r\n",
    "https://api.example",
    7,
  ],
  ["a tunnel", "CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n", "tcp://169.254.169.254:80", undefined],
  ["a WebSocket", "GET ws://x.example/ HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", "ws://x.example", undefined],
  [
    "an address that is none",
    "GET /path HTTP/1.1\r\nx-iterate-ordinal: x\r\n\r\n",
    "an address that is not well-formed",
    undefined,
  ],
])("%s is refused by name and recorded without path or query", async (_what, request, destination, ordinal) => {
  const answer = await say(request);
  const message = `EGRESS_DENIED: this project's code may not reach ${destination}; no network destination is allowed.`;
  expect(answer).toMatch(/^HTTP\/1\.1 403 /);
  expect(answer).toContain(message);
  expect(records).toEqual([[`warn ${message}`, ordinal]]);
});
