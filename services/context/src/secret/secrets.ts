/**
 * The secrets of projects: set as a sealed fact of their own context, used here and nowhere else. What is current is read from the
 * confirmed core state, so a secret that was set through any process is the one that is used from then on.
 */
import { secret } from "iterate/events";
import { codedError } from "iterate/lib";
import type { Writer } from "../caller/contract.js";
import { readableCore, type Heads } from "../log/confirm.js";
import type { Appender, ContextAddress } from "../log/contract.js";
import { open, seal } from "./envelope.js";
import type { Keyring } from "./keyring.js";
import { isSignature, type SignatureScheme } from "./signature.js";
import { UnsealedCache } from "./unsealed-cache.js";

/** How long, and how many, unsealed secrets stay in memory. */
const unsealedMs = 60_000;
const maxUnsealed = 1_000;
const sweepEveryMs = 10_000;

export interface SecretsParts {
  readonly keyring: Keyring;
  readonly appender: Appender;
  readonly heads: Heads;
  /** Monotonic milliseconds. */
  readonly nowMs: () => number;
}

export class Secrets {
  readonly #parts: SecretsParts;
  readonly #unsealed: UnsealedCache;
  readonly #sweeper: NodeJS.Timeout;

  constructor(parts: SecretsParts) {
    this.#parts = parts;
    this.#unsealed = new UnsealedCache({ maxEntries: maxUnsealed, ttlMs: unsealedMs, nowMs: parts.nowMs });
    this.#sweeper = setInterval(() => this.#unsealed.sweep(), sweepEveryMs).unref();
  }

  /** Unsealed secrets in memory. */
  get unsealed(): number {
    return this.#unsealed.size;
  }

  /**
   * Seals `material` and records it; answers the offset of the fact. Repeated, it records another fact with the same value.
   *
   * @throws as an append.
   */
  async set(
    address: ContextAddress,
    material: Uint8Array,
    origins: readonly string[],
    writer: Writer,
    traceparent: string | null,
  ): Promise<number> {
    const payload = { path: address.path, urls: origins, sealed: seal(this.#parts.keyring, address, material) };
    const event = {
      type: secret.secretSet.type,
      payload: Buffer.from(JSON.stringify(payload)),
      metadata: null,
      idempotencyKey: null,
      expectedOffset: null,
      formatVersion: 0,
      processor: null,
      isEphemeral: false,
    };
    const [receipt] = await this.#parts.appender.append({ address, appendId: null, events: [event], writer, traceparent });
    return receipt!.offset;
  }

  /**
   * Whether `signature` was made with the current value of the secret over exactly `payload`.
   *
   * @throws CodedError SECRET_NOT_SET; INTERNAL when it was sealed under a key this deployment lacks; UNAVAILABLE (retryable).
   */
  async verify(address: ContextAddress, scheme: SignatureScheme, payload: Uint8Array, signature: Uint8Array): Promise<boolean> {
    const head = await this.#parts.heads.confirm(address);
    const state = head === undefined ? null : readableCore(head).secret;
    if (state === null) throw codedError("SECRET_NOT_SET", `no secret has been set at ${address.path}`, { path: address.path });
    const key = `${address.owner}\0${address.path}`;
    let material = this.#unsealed.get(key, state.setAtOffset);
    if (material === undefined) {
      material = open(this.#parts.keyring, address, state.sealed);
      this.#unsealed.set(key, state.setAtOffset, material);
    }
    return isSignature(scheme, material, payload, signature);
  }

  close(): void {
    clearInterval(this.#sweeper);
    this.#unsealed.clear();
  }
}
