/** Webhook endpoints of projects: made with a sealed secret, found by their unguessable id, listed. */
import { randomBytes } from "node:crypto";
import { codedError } from "iterate/lib";
import type { Queryable } from "@iterate-platform/service/postgres";
import type { WebhookEndpoint } from "../project/contract.js";
import { assertLabel } from "../project/slug.js";
import { endpointsOfProject, findEndpoint, insertEndpoint } from "./endpoint.sql.js";

export const minSecretBytes = 16;
export const maxSecretBytes = 256;

/** Keeps the secret; `context` alone can read it again. */
export type SetSecret = (owner: string, path: string, material: Uint8Array) => Promise<void>;

export interface CreatedEndpoint {
  readonly endpoint: WebhookEndpoint;
  /** Answered only when it was made here, and only this once. */
  readonly generatedSecret: string | null;
}

export class WebhookEndpoints {
  constructor(
    private readonly pool: Queryable,
    private readonly setSecret: SetSecret,
  ) {}

  /**
   * Makes an endpoint. The secret is sealed first, under a path of the endpoint's own id, so an endpoint that exists always has one.
   * Throws INVALID_INPUT, and ALREADY_EXISTS when the project has an endpoint of this provider and name.
   */
  async create(projectId: string, provider: "github", name: string, secret: Uint8Array | null): Promise<CreatedEndpoint> {
    assertLabel("name", name);
    if (secret !== null && (secret.length < minSecretBytes || secret.length > maxSecretBytes)) {
      throw codedError("INVALID_INPUT", `the secret is ${secret.length} bytes, not ${minSecretBytes} to ${maxSecretBytes}`, {
        field: "secret",
      });
    }
    const generatedSecret = secret === null ? randomBytes(32).toString("hex") : null;
    const id = randomBytes(16).toString("hex");
    const secretPath = `/secrets/${provider}-webhook-${id}`;
    await this.setSecret(projectId, secretPath, secret ?? Buffer.from(generatedSecret ?? ""));
    const endpoint = await insertEndpoint(this.pool, { id, projectId, provider, name, secretPath });
    if (endpoint === null) {
      throw codedError(
        "ALREADY_EXISTS",
        `the project has a ${provider} webhook endpoint named ${JSON.stringify(name)}; choose another name`,
        { name },
      );
    }
    return { endpoint, generatedSecret };
  }

  async list(projectId: string): Promise<WebhookEndpoint[]> {
    return endpointsOfProject(this.pool, projectId);
  }

  /** Null when no endpoint has this id. */
  async find(id: string): Promise<WebhookEndpoint | null> {
    return /^[0-9a-f]{32}$/.test(id) ? findEndpoint(this.pool, id) : null;
  }
}
