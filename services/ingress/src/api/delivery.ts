/** A provider's delivery over HTTP: its raw body is taken within a bound and a size, and nothing is acknowledged before it is committed. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { readBody } from "@iterate-platform/service/http-server";
import { codedError } from "iterate/lib";
import { maxBodyBytes } from "../webhook/github/delivery-event.js";
import { receiveDelivery, type ReceivePorts, type Received } from "../webhook/github/receive.js";
import { singleHeader } from "./single-header.js";

export interface DeliveryParts {
  readonly receive: ReceivePorts;
  /** Told of every delivery's end: how it was answered, and for whom once that is known. */
  readonly onDelivery: (end: Received | { readonly error: unknown }, header: (name: string) => string | undefined) => void;
}

/** How long a body may take to arrive, milliseconds. GitHub itself gives up after 10 s. */
export const deliveryBodyWithinMs = 30_000;

/**
 * Answers 200 once the delivery is committed. A sender whose body takes longer than `bodyWithinMs` is cut without an answer.
 *
 * @throws CodedError as `receiveDelivery`; INVALID_INPUT for another method than POST; CANCELLED when the sender left or was cut.
 */
export async function receiveOver(
  request: IncomingMessage,
  response: ServerResponse,
  endpointId: string,
  { receive, onDelivery }: DeliveryParts,
  bodyWithinMs = deliveryBodyWithinMs,
): Promise<void> {
  const header = (name: string): string | undefined => singleHeader(request, name);
  try {
    if (request.method !== "POST") throw codedError("INVALID_INPUT", `a delivery is a POST, not ${request.method}`);
    const received = await receiveDelivery(endpointId, header, () => bodyOf(request, bodyWithinMs), receive);
    onDelivery(received, header);
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ status: received.outcome, delivery: received.deliveryId }));
  } catch (error) {
    onDelivery({ error }, header);
    throw error;
  }
}

async function bodyOf(request: IncomingMessage, withinMs: number): Promise<Buffer> {
  const timer = setTimeout(() => request.destroy(), withinMs);
  try {
    return await readBody(request, maxBodyBytes);
  } finally {
    clearTimeout(timer);
  }
}
