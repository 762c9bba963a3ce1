/** Contexts that this process gave birth to and whose parents are to be told. */
import { hiddenOwner, type CommittedBatch } from "../log/contract.js";
import type { Birth } from "./contract.js";

/** Births that wait to be told; those beyond are the sweep's. */
export const maxNewborn = 10_000;

export class Newborn {
  readonly #waiting: Birth[] = [];

  get count(): number {
    return this.#waiting.length;
  }

  /** A commit observer. */
  observe({ commits }: CommittedBatch): void {
    for (const { commitNo, head } of commits) {
      if (commitNo !== 1 || hiddenOwner.test(head.address.owner) || this.#waiting.length >= maxNewborn) continue;
      this.#waiting.push({ contextId: head.contextId, address: head.address });
    }
  }

  /** Takes up to `most` of them, the oldest first. */
  take(most: number): Birth[] {
    return this.#waiting.splice(0, most);
  }
}
