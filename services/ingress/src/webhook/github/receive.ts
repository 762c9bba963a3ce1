/**
 * One GitHub delivery, from raw bytes to a committed event. The order is fixed: the endpoint, the headers, the body, the signature over
 * its raw bytes, then the append. So a stranger who knows no endpoint makes nothing be held in memory, and nothing is answered with
 * success before the event is committed.
 */
import { codedError, isCodedError } from "iterate/lib";
import type { WebhookEndpoint } from "../../project/contract.js";
import { deliveryContextPath, deliveryEventType, deliveryKey, deliveryPayload, maxBodyBytes } from "./delivery-event.js";
import { deliveryHeaders, type SingleHeader } from "./signature.js";

export interface ReceivePorts {
  findEndpoint(id: string): Promise<WebhookEndpoint | null>;
  /** True when the signature over exactly these bytes was made with the endpoint's secret. */
  verify(endpoint: WebhookEndpoint, body: Uint8Array, signature: Uint8Array): Promise<boolean>;
  append(
    owner: string,
    path: string,
    event: { type: string; payload: Uint8Array; idempotencyKey: string },
  ): Promise<{ offset: bigint; existing: boolean }>;
}

export interface Received {
  /** `accepted`: committed now. `duplicate`: the delivery's first arrival is committed and stands. */
  readonly outcome: "accepted" | "duplicate";
  /** Delivery id, for the answer and the span. */
  readonly deliveryId: string;
  readonly endpoint: WebhookEndpoint;
}

/**
 * Commits the delivery or throws: NOT_FOUND (no such endpoint), INVALID_INPUT or INVALID_SIGNATURE (headers, signature), EVENT_TOO_LARGE,
 * INVALID_JSON, UNAVAILABLE and OVERLOADED (repeat the delivery; nothing is acknowledged).
 */
export async function receiveDelivery(
  endpointId: string,
  header: SingleHeader,
  readBody: () => Promise<Uint8Array>,
  ports: ReceivePorts,
): Promise<Received> {
  const endpoint = await ports.findEndpoint(endpointId);
  if (endpoint === null || endpoint.provider !== "github") {
    throw codedError("NOT_FOUND", "there is no GitHub webhook endpoint at this address; list the project's endpoints");
  }
  const delivery = deliveryHeaders(header);
  const body = await readBody();
  if (body.length > maxBodyBytes) {
    throw codedError("EVENT_TOO_LARGE", `the body is ${body.length} bytes, more than ${maxBodyBytes}`, { maxBodyBytes });
  }
  if (!(await ports.verify(endpoint, body, delivery.signature))) {
    throw codedError("INVALID_SIGNATURE", "the signature does not match the raw body; set the endpoint's secret at GitHub");
  }
  const contentType = header("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (contentType !== "application/json") {
    throw codedError(
      "INVALID_INPUT",
      `content type ${JSON.stringify(contentType ?? "")} is not application/json; choose it at GitHub`,
      { header: "Content-Type" },
    );
  }
  const outcome = await commit(endpoint, delivery, body, ports);
  return { outcome, deliveryId: delivery.id, endpoint };
}

async function commit(
  endpoint: WebhookEndpoint,
  delivery: ReturnType<typeof deliveryHeaders>,
  body: Uint8Array,
  ports: ReceivePorts,
): Promise<Received["outcome"]> {
  try {
    const { existing } = await ports.append(endpoint.projectId, deliveryContextPath(endpoint.name), {
      type: deliveryEventType,
      payload: deliveryPayload(delivery, body),
      idempotencyKey: deliveryKey(endpoint.id, delivery),
    });
    return existing ? "duplicate" : "accepted";
  } catch (error) {
    // The id is committed with other bytes: the first arrival stands, and a refusal would make the provider try for ever.
    if (isCodedError(error) && error.code === "IDEMPOTENCY_CONFLICT") return "duplicate";
    throw error;
  }
}
