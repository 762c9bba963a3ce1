/** Webhook endpoints: addresses at which a provider posts signed deliveries that become events of a context. */

export const webhookProviders = ["github"] as const;
export type WebhookProvider = (typeof webhookProviders)[number];

export interface CreateWebhookEndpointArgs {
  readonly provider: WebhookProvider;
  /** A DNS label, default `main`: deliveries land in the context `/integrations/<provider>/<name>`. */
  readonly name?: string;
  /** What the provider signs with, 16–256 bytes; absent: a fresh one is made. */
  readonly secret?: string;
}

export interface WebhookEndpoint {
  readonly provider: WebhookProvider;
  readonly name: string;
  /** The address to give to the provider. It holds an unguessable id. */
  readonly url: string;
  /** Where its deliveries land. */
  readonly contextPath: string;
  /** ISO 8601. */
  readonly createdAt: string;
}

export interface CreatedWebhookEndpoint extends WebhookEndpoint {
  /** Shown once: give it to the provider now. */
  readonly secret: string;
}
