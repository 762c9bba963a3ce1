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

/** Endpoints kept in memory. */
const maxKnown = 10_000;

export class WebhookEndpoints {
  readonly #known = new Map<string, Promise<WebhookEndpoint | null>>();

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

  /** Null when no endpoint has this id. An endpoint never changes, so one that was found is not looked up again: bursts cost no query. */
  find(id: string): Promise<WebhookEndpoint | null> {
    if (!/^[0-9a-f]{32}$/.test(id)) return Promise.resolve(null);
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const found = findEndpoint(this.pool, id);
    if (this.#known.size >= maxKnown) this.#known.clear();
    this.#known.set(id, found);
    const forget = (): void => void this.#known.delete(id);
    found.then((endpoint) => (endpoint === null ? forget() : undefined), forget);
    return found;
  }
}
