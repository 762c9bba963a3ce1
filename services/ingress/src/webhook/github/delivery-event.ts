/**
 * The event a delivery becomes. It holds only what every redelivery repeats, so a redelivery lands on the same idempotency key with
 * the same body; the raw body is spliced in untouched, byte for byte.
 */
import { github } from "iterate/events";
import type { DeliveryHeaders } from "./signature.js";

/** Largest raw body, bytes: an event's 8 MiB less room for the envelope around it. Published; GitHub itself stops at 25 MB. */
export const maxBodyBytes = 8 * 1024 * 1024 - 1024;

export const deliveryEventType = github.githubWebhookReceived.type;

export function deliveryPayload(delivery: DeliveryHeaders, body: Uint8Array): Buffer {
  const head = `{"delivery":{"id":${JSON.stringify(delivery.id)},"name":${JSON.stringify(delivery.name)}},"body":`;
  return Buffer.concat([Buffer.from(head), body, Buffer.from("}")]);
}

/** Unique in the context for ever: the provider's delivery id under the endpoint it came to. */
export function deliveryKey(endpointId: string, delivery: DeliveryHeaders): string {
  return `github-webhook:${endpointId}:${delivery.id}`;
}

export function deliveryContextPath(name: string): string {
  return `/integrations/github/${name}`;
}
