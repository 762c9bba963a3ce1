/** The slugs of projects, as their roots know them. A slug never changes here, so what was read is kept. */
import { codedError } from "iterate/lib";
import type { ContextLog } from "../log/contract.js";

const maxKept = 10_000;

export class ProjectNames {
  readonly #log: ContextLog;
  readonly #kept = new Map<string, string>();

  constructor(log: ContextLog) {
    this.#log = log;
  }

  /** @throws NOT_FOUND when the owner is no project; what reading its root is refused with. */
  async slugOf(owner: string): Promise<string> {
    const kept = this.#kept.get(owner);
    if (kept !== undefined) return kept;
    const { projectSlug } = await this.#log.describe({ owner, path: "/" });
    if (projectSlug === "") throw codedError("NOT_FOUND", `${JSON.stringify(owner)} is no project`, { owner });
    if (this.#kept.size >= maxKept) this.#kept.clear();
    this.#kept.set(owner, projectSlug);
    return projectSlug;
  }
}
