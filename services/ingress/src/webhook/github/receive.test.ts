import { createHmac } from "node:crypto";
import { codedError } from "iterate/lib";
import { expect, test } from "vitest";
import type { WebhookEndpoint } from "../../project/contract.js";
import { deliveryPayload, maxBodyBytes } from "./delivery-event.js";
import { receiveDelivery, type ReceivePorts } from "./receive.js";

const secret = "it is a secret";
const endpoint: WebhookEndpoint = {
  id: "e1",
  projectId: "prj_a",
  provider: "github",
  name: "main",
  secretPath: "/secrets/github-webhook-e1",
  createdAt: new Date(0),
};
const sign = (body: Uint8Array) => createHmac("sha256", secret).update(body).digest();

/** The ports over a log in memory; the real ones are covered over HTTP in the service's own suite. */
function ports(overrides: Partial<ReceivePorts> = {}) {
  const log = new Map<string, Uint8Array>();
  const all: ReceivePorts = {
    findEndpoint: async (id) => (id === endpoint.id ? endpoint : null),
    verify: async (_endpoint, body, signature) => sign(body).equals(signature),
    append: async (_owner, _path, event) => {
      const stored = log.get(event.idempotencyKey);
      if (stored !== undefined && !Buffer.from(stored).equals(event.payload))
        throw codedError("IDEMPOTENCY_CONFLICT", "another body");
      log.set(event.idempotencyKey, event.payload);
      return { offset: BigInt(log.size), existing: stored !== undefined };
    },
    ...overrides,
  };
  return { all, log };
}

function headers(body: Uint8Array, overrides: Record<string, string> = {}) {
  const values: Record<string, string> = {
    "content-type": "application/json",
    "x-github-delivery": "d-1",
    "x-github-event": "issues",
    "x-hub-signature-256": `sha256=${sign(body).toString("hex")}`,
    ...overrides,
  };
  return (name: string) => values[name];
}

const given = (body: Uint8Array) => () => Promise.resolve(body);

test.for(['{"a":1}', '{ "b" : "\\u001B", "a":[1,2 ] }\n', '\n{"number": 1.0e2}', '{"lone":"\\ud800"}'])(
  "the raw body %j is committed byte for byte",
  async (text) => {
    const { all, log } = ports();
    const body = Buffer.from(text);
    expect(await receiveDelivery("e1", headers(body), given(body), all)).toMatchObject({ outcome: "accepted", deliveryId: "d-1" });
    expect(Buffer.from(log.get("github-webhook:e1:d-1") ?? []).toString()).toBe(
      `{"delivery":{"id":"d-1","name":"issues"},"body":${text}}`,
    );
  },
);

test("a redelivery is a duplicate, also with another body, and the first stays", async () => {
  const { all, log } = ports();
  const first = Buffer.from('{"a":1}');
  const second = Buffer.from('{"a":2}');
  await receiveDelivery("e1", headers(first), given(first), all);
  expect((await receiveDelivery("e1", headers(first), given(first), all)).outcome).toBe("duplicate");
  expect((await receiveDelivery("e1", headers(second), given(second), all)).outcome).toBe("duplicate");
  expect(log.size).toBe(1);
  expect(Buffer.from(log.get("github-webhook:e1:d-1") ?? []).toString()).toContain('{"a":1}');
});

test("a signature over equal JSON in other bytes is refused and nothing is appended", async () => {
  const { all, log } = ports();
  const body = Buffer.from('{"a": 1}');
  await expect(receiveDelivery("e1", headers(Buffer.from('{"a":1}')), given(body), all)).rejects.toMatchObject({
    code: "INVALID_SIGNATURE",
  });
  expect(log.size).toBe(0);
});

test("a body is taken at its limit and refused one byte above", async () => {
  const { all } = ports();
  for (const [size, code] of [
    [maxBodyBytes - 1, null],
    [maxBodyBytes, null],
    [maxBodyBytes + 1, "EVENT_TOO_LARGE"],
  ] as const) {
    const body = Buffer.alloc(size, " ");
    const outcome = receiveDelivery("e1", headers(body, { "x-github-delivery": `d-${size}` }), given(body), all);
    if (code === null) await expect(outcome).resolves.toMatchObject({ outcome: "accepted" });
    else await expect(outcome).rejects.toMatchObject({ code });
  }
});

test("the largest body fits an event whatever the delivery's id and name", () => {
  const delivery = { id: "d".repeat(128), name: "n".repeat(100), signature: Buffer.alloc(32) };
  expect(deliveryPayload(delivery, Buffer.alloc(maxBodyBytes, " ")).length).toBeLessThanOrEqual(8 * 1024 * 1024);
});

test("a form-encoded delivery is refused with what to choose", async () => {
  const { all } = ports();
  const body = Buffer.from("payload=%7B%7D");
  await expect(
    receiveDelivery("e1", headers(body, { "content-type": "application/x-www-form-urlencoded" }), given(body), all),
  ).rejects.toMatchObject({
    code: "INVALID_INPUT",
    message: expect.stringContaining("application/json") as unknown,
  });
});

test("an unknown endpoint is not found, and a failed append is not acknowledged", async () => {
  const body = Buffer.from("{}");
  await expect(receiveDelivery("e2", headers(body), given(body), ports().all)).rejects.toMatchObject({ code: "NOT_FOUND" });
  const away = ports({ append: async () => Promise.reject(codedError("UNAVAILABLE", "context is away")) });
  await expect(receiveDelivery("e1", headers(body), given(body), away.all)).rejects.toMatchObject({ code: "UNAVAILABLE" });
});

test.for([
  ["an endpoint nobody made", "e2", {}, "NOT_FOUND"],
  ["a malformed signature", "e1", { "x-hub-signature-256": "sha256=0" }, "INVALID_SIGNATURE"],
  ["a missing id", "e1", { "x-github-delivery": "" }, "INVALID_INPUT"],
] as const)("of a delivery with %s not one byte of body is taken", async ([, id, overrides, code]) => {
  const unread = () => Promise.reject(new Error("the body was asked for"));
  await expect(receiveDelivery(id, headers(Buffer.from("{}"), overrides), unread, ports().all)).rejects.toMatchObject({ code });
});
