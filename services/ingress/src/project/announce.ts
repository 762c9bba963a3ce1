/**
 * What a new project owes: its birth facts, the subscription that publishes its config repo, and the first commit of its template. The
 * project row is the durable owner; each step is keyed, so a redo after a crash at any point lands nothing twice.
 *
 * States of a row: owed (announced_at null, due_at set) → announced. A failure puts the row off by a ladder of 1 s·2ⁿ up to 5 minutes
 * without end, because the project was already answered for; its age is a metric.
 */
import { isCodedError } from "iterate/lib";
import { itx, project as projectEvents, repo as repoEvents } from "iterate/events";
import type { OwedProject } from "./contract.js";

export const configRepoPath = "/repos/config";

export interface FactInput {
  readonly type: string;
  readonly payload: unknown;
  readonly idempotencyKey: string;
}

/** Where the steps go. Each call may be repeated. */
export interface AnnouncePorts {
  append(owner: string, path: string, events: readonly FactInput[]): Promise<void>;
  /** Commits the template's files to the config repo, unless it has a commit already. */
  commitTemplate(owner: string, template: string): Promise<void>;
}

export const maxPutOffMs = 300_000;

/** Delay before attempt `attempts + 1`, milliseconds. */
export function putOffMs(attempts: number): number {
  return Math.min(1000 * 2 ** Math.min(attempts - 1, 20), maxPutOffMs);
}

export function birthFacts(owed: OwedProject): FactInput[] {
  return [
    {
      type: projectEvents.projectCreateRequested.type,
      payload: { slug: owed.slug, ...(owed.template === null ? {} : { configRepoTemplate: owed.template }) },
      idempotencyKey: `project/create-requested:${owed.id}`,
    },
    { type: projectEvents.projectCreated.type, payload: {}, idempotencyKey: `project/created:${owed.id}` },
  ];
}

export function publicationSubscription(owed: OwedProject): FactInput {
  return {
    type: itx.subscriptionConfigured.type,
    payload: {
      name: "publication",
      target: ["itx", "builtins", "processors", ["get", "publication"]],
      consumes: [repoEvents.commitCompleted.type, repoEvents.publicationSettled.type],
      afterOffset: 0,
    },
    idempotencyKey: `project/publication:${owed.id}`,
  };
}

/** Carries out every step; throws on the first that fails. */
export async function announce(owed: OwedProject, ports: AnnouncePorts): Promise<void> {
  await ports.append(owed.id, "/", birthFacts(owed));
  await ports.append(owed.id, configRepoPath, [publicationSubscription(owed)]);
  if (owed.template !== null) await commitOnce(owed, owed.template, ports);
}

/** The repo refuses a first commit when it has one: then an earlier try, or the owner's own push, was first. */
async function commitOnce(owed: OwedProject, template: string, ports: AnnouncePorts): Promise<void> {
  try {
    await ports.commitTemplate(owed.id, template);
  } catch (error) {
    if (!(isCodedError(error) && error.code === "NOT_FAST_FORWARD")) throw error;
  }
}
