/**
 * Tells parents of the births of their children, each once. The process that gave birth tells within a moment; what it did not come to, the
 * sweep of any process finds in the context table. A parent is told under a key that the child's path makes, so telling again
 * changes nothing. One that is not born hears nothing, and is not born by it: nobody listens there.
 */
import { createHash } from "node:crypto";
import { itx } from "iterate/events";
import type { NewChain } from "../caller/writer.js";
import type { Heads } from "../log/confirm.js";
import type { AppendEvent, Appender, ContextAddress } from "../log/contract.js";
import { nameOf } from "../log/head-cache.js";
import type { Birth, BirthStore } from "./contract.js";
import type { Newborn } from "./newborn.js";

/** Children told of in one append, and births looked up by one statement. */
const page = 500;
/** A younger birth is left to the process that gave it. */
export const sweepAgeMs = 10_000;

export interface TellerParts {
  readonly store: BirthStore;
  readonly newborn: Newborn;
  readonly heads: Heads;
  readonly appender: Appender;
  readonly newChain: NewChain;
  /** Where tests make the process fail. */
  readonly failpoint: (name: string) => void | Promise<void>;
  /** Hears of a parent that could not be told; it is told again. */
  readonly onFailure: (parent: ContextAddress, error: unknown) => void;
  readonly sweepAgeMs?: number;
}

/** The births of one shard. */
export class ChildTeller {
  readonly #parts: TellerParts;
  #sweptThrough = 0;
  #told = 0;

  constructor(parts: TellerParts) {
    this.#parts = parts;
  }

  /** Children told of by this process. */
  get count(): number {
    return this.#told;
  }

  /** Tells of the births that were observed. @throws CodedError UNAVAILABLE (retryable); the sweep finds what is left. */
  async tellWaiting(): Promise<void> {
    for (let births = this.#take(); births.length > 0; births = this.#take()) await this.#tell(births);
  }

  /** Tells of a page of births that nobody told of; true when more may be there. @throws CodedError UNAVAILABLE (retryable). */
  async sweep(): Promise<boolean> {
    const births = await this.#parts.store.untold(this.#sweptThrough, this.#parts.sweepAgeMs ?? sweepAgeMs, page);
    // What cannot be told now does not keep the rest from its turn.
    this.#sweptThrough = births.length < page ? 0 : births.at(-1)!.contextId;
    if (births.length > 0) await this.#tell(births);
    return births.length === page;
  }

  #take(): Birth[] {
    return this.#parts.newborn.take(page);
  }

  async #tell(births: readonly Birth[]): Promise<void> {
    const { store, failpoint, onFailure } = this.#parts;
    const told = births.filter(({ address }) => address.path === "/").map(({ contextId }) => contextId);
    const families = Map.groupBy(
      births.filter(({ address }) => address.path !== "/"),
      ({ address }) => nameOf(parentOf(address)),
    );
    await failpoint("children.before-tell");
    await Promise.all(
      [...families.values()].map(async (children) => {
        const parent = parentOf(children[0]!.address);
        try {
          await this.#tellParent(parent, children);
          told.push(...children.map(({ contextId }) => contextId));
        } catch (error) {
          onFailure(parent, error);
        }
      }),
    );
    await failpoint("children.told");
    if (told.length > 0) await store.told(told);
  }

  async #tellParent(parent: ContextAddress, children: readonly Birth[]): Promise<void> {
    const { heads, appender, newChain } = this.#parts;
    if ((await heads.confirm(parent)) === undefined) return;
    await appender.append({
      address: parent,
      appendId: null,
      events: children.map(({ address }) => childCreated(address.path)),
      writer: {
        kind: "service",
        origin: null,
        cause: { chain: newChain("birth"), depth: 0 },
        principal: null,
        isPlatform: true,
        owner: null,
        lease: null,
      },
      traceparent: null,
    });
    this.#told += children.length;
  }
}

/** The context one name above. */
export function parentOf({ owner, path }: ContextAddress): ContextAddress {
  return { owner, path: path.slice(0, path.lastIndexOf("/")) || "/" };
}

function childCreated(childPath: string): AppendEvent {
  return {
    type: itx.childCreated.type,
    payload: Buffer.from(JSON.stringify({ childPath })),
    metadata: null,
    // A path may be longer than a key.
    idempotencyKey: `itx/child-created:${createHash("sha256").update(childPath).digest("base64url")}`,
    expectedOffset: null,
    formatVersion: 0,
    processor: null,
    isEphemeral: false,
  };
}
