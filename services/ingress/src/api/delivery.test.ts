import { createHmac } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { createHttpServer, type HttpServer } from "@iterate-platform/service/http-server";
import { createLog } from "@iterate-platform/service/log";
import { errorCode } from "iterate/lib";
import { afterEach, expect, test } from "vitest";
import type { WebhookEndpoint } from "../project/contract.js";
import { deliveryBodyWithinMs, receiveOver } from "./delivery.js";

const secret = "it is a secret";
const body = Buffer.from('{"a":1}');
const signature = createHmac("sha256", secret).update(body).digest();
const endpoint: WebhookEndpoint = {
  id: "e1",
  projectId: "prj_a",
  provider: "github",
  name: "main",
  secretPath: "/secrets/github-webhook-e1",
  createdAt: new Date(0),
};

let server: HttpServer | undefined;
afterEach(() => server?.drain(0));

/** A listener that takes deliveries whose bodies arrive within the bound; `ends` holds how each was answered. */
async function serve(bodyWithinMs: number): Promise<{ port: number; appended: Uint8Array[]; ends: string[] }> {
  const appended: Uint8Array[] = [];
  const ends: string[] = [];
  const parts = {
    receive: {
      findEndpoint: async (id: string) => (id === endpoint.id ? endpoint : null),
      verify: async (_endpoint: WebhookEndpoint, bytes: Uint8Array, given: Uint8Array) =>
        createHmac("sha256", secret).update(bytes).digest().equals(given),
      append: async (_owner: string, _path: string, { payload }: { payload: Uint8Array }) => {
        appended.push(payload);
        return { offset: 1n, existing: false };
      },
    },
    onDelivery: (end: { readonly outcome: string } | { readonly error: unknown }) =>
      void ends.push("error" in end ? errorCode(end.error) : end.outcome),
  };
  server = createHttpServer({
    name: "ingress",
    listen: { variable: "PUBLIC_HTTP_LISTEN", host: "127.0.0.1", port: 0 },
    log: createLog("ingress", { level: "error" }),
    handler: (request, response) => receiveOver(request, response, "e1", parts, bodyWithinMs),
  });
  return { port: await server.start(), appended, ends };
}

/** Sends the head of a delivery and then `sent` of its body. */
function deliver(port: number, sent: Uint8Array) {
  const socket = connect(port, "127.0.0.1");
  const head = [
    "POST /api/integrations/github/webhook/e1 HTTP/1.1",
    "host: localhost",
    "content-type: application/json",
    `content-length: ${body.length}`,
    "x-github-delivery: d-1",
    "x-github-event: issues",
    `x-hub-signature-256: sha256=${signature.toString("hex")}`,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  socket.write(sent);
  return socket;
}

test("a sender whose body does not arrive within the bound is cut, unanswered, and nothing is committed", async () => {
  const { port, appended, ends } = await serve(50);
  const socket = deliver(port, body.subarray(0, 3));
  let answer = "";
  socket.on("data", (chunk: Buffer) => (answer += chunk.toString("latin1")));
  socket.on("error", () => undefined);
  await once(socket, "close");
  expect(answer).toBe("");
  expect(ends).toEqual(["CANCELLED"]);
  expect(appended).toEqual([]);
});

test("a body that trickles in within the bound is committed", async () => {
  const { port, appended, ends } = await serve(10_000);
  const socket = deliver(port, body.subarray(0, 3));
  socket.write(body.subarray(3));
  const [answer] = (await once(socket, "data")) as [Buffer];
  expect(answer.toString("latin1")).toMatch(/^HTTP\/1\.1 200 /);
  expect(ends).toEqual(["accepted"]);
  expect(appended).toHaveLength(1);
  socket.destroy();
});

test("the bound that is served is 30 seconds", () => {
  expect(deliveryBodyWithinMs).toBe(30_000);
});
