/** Why a project has no published page, in words for who pushed it. */
import { repo } from "iterate/events";
import { toStreamEvent } from "@iterate-platform/service/stream-event";
import type { StreamEvent } from "iterate/api";
import type { ContextLog } from "../log/contract.js";

const configPath = "/repos/config";
const branch = "main";
/** Looked at from the beginning: a project that never published has few. */
const maxLooked = 1_000;

/** Throws what the log throws. */
export async function whyUnpublished(log: Pick<ContextLog, "read">, owner: string, signal: AbortSignal): Promise<string> {
  const types = [repo.commitCompleted.type, repo.publicationSettled.type];
  const { events } = await log.read({ owner, path: configPath }, { after: 0, limit: maxLooked, types }, { signal });
  return unpublishedBecause(events.map((event) => toStreamEvent(event, configPath)));
}

/** What the commits of a config repository, and their settlements, say about a project that has published nothing. */
export function unpublishedBecause(events: readonly Pick<StreamEvent, "offset" | "type" | "payload">[]): string {
  const commits = events.filter(
    ({ type, payload }) => type === repo.commitCompleted.type && (payload as { branch?: unknown }).branch === branch,
  );
  const settled = new Set(
    events
      .filter(({ type }) => type === repo.publicationSettled.type)
      .map(({ payload }) => (payload as { requestOffset?: unknown }).requestOffset),
  );
  if (commits.length === 0) return `this project has published no page: nothing was pushed to ${branch} yet`;
  if (commits.some(({ offset }) => !settled.has(offset))) return "this project has published no page yet: a push is being built";
  return "this project has published no page: no push could be built and loaded so far; `iterate logs` and the project's events say why";
}
