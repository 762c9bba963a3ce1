/** The slugs of projects, read from the fact that asked for them. A slug never changes here, so what was read is kept. */
import { project } from "iterate/events";
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
    const { events } = await this.#log.read(
      { owner, path: "/" },
      { after: 0, limit: 1, types: [project.projectCreateRequested.type] },
    );
    const asked = project.projectCreateRequested.payload.safeParse(JSON.parse(events[0]?.payload?.toString() ?? "null"));
    if (!asked.success) throw codedError("NOT_FOUND", `${JSON.stringify(owner)} is no project`, { owner });
    if (this.#kept.size >= maxKept) this.#kept.clear();
    this.#kept.set(owner, asked.data.slug);
    return asked.data.slug;
  }
}
