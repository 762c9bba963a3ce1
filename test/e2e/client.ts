/** What the end-to-end suites do as a developer would: a session, a project with code pushed to it, its log and its pages. */
import { join } from "node:path";
import { pushFolder } from "@iterate-platform/local";
import type { Stack } from "@iterate-platform/local";
import { eventually } from "@iterate-platform/testing";
import type { RpcStub } from "capnweb";
import {
  connectIterate,
  type ContextApi,
  type IterateConnection,
  type ProjectApi,
  type ProjectInfo,
  type StreamEvent,
} from "iterate/node";
import { expect } from "vitest";

export type Context = RpcStub<ContextApi>;

export interface Pushed {
  readonly info: ProjectInfo;
  readonly project: RpcStub<ProjectApi>;
}

export function connect(stack: Stack): Promise<IterateConnection> {
  const baseUrl = `http://localhost:${stack.ports.of("public-http")}`;
  return connectIterate({ baseUrl, auth: { type: "admin-secret", secret: stack.adminToken } });
}

/** A new project that runs the code of `projects/<folder>`, published. */
export async function pushed(stack: Stack, connection: IterateConnection, slug: string, folder: string): Promise<Pushed> {
  const info = await connection.session.projects.create({ slug });
  const project = await connection.session.projects.get(slug);
  await publish(stack, { info, project }, folder);
  return { info, project };
}

/** Pushes the code of `projects/<folder>` to a project, and waits until it is what the project runs. */
export async function publish(stack: Stack, { info, project }: Pushed, folder: string): Promise<void> {
  const { oid } = await pushFolder(join(import.meta.dirname, "projects", folder), info.gitUrl, stack.adminToken, `Run ${folder}`);
  const settled = await project.waitForEvent({
    types: ["events.iterate.com/project/worker-updated", "events.iterate.com/project/worker-update-failed"],
    payload: { commitOid: oid },
    afterOffset: 0,
    timeoutMs: 60_000,
  });
  expect(settled.type, JSON.stringify(settled.payload)).toBe("events.iterate.com/project/worker-updated");
}

export async function readAll(context: Pick<Context, "readEvents">): Promise<StreamEvent[]> {
  const events: StreamEvent[] = [];
  for (let afterOffset = 0; ;) {
    const page = await context.readEvents({ afterOffset, limit: 1000 });
    events.push(...page.events);
    if (page.atHead) return events;
    afterOffset = page.scannedThroughOffset;
  }
}

export interface Snapshot {
  readonly offset: number;
  readonly state: { readonly count: number };
}

/** What the project's page says of its counting processor, once that has folded through `offset`. */
export function countedThrough(pageUrl: string, offset: number, timeoutMs: number): Promise<Snapshot> {
  return eventually(
    async () => {
      const response = await fetch(pageUrl, { signal: AbortSignal.timeout(5_000) });
      const text = await response.text();
      if (response.status !== 200) throw new Error(`${response.status} ${text.slice(0, 200)}`);
      const snapshot = JSON.parse(text) as Snapshot;
      if (snapshot.offset < offset) throw new Error(`it is at offset ${snapshot.offset}`);
      return snapshot;
    },
    { timeoutMs, intervalMs: 100 },
  );
}
