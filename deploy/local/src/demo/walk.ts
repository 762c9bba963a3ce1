/**
 * The walk through one webhook's traces: webhook → append → publish, and, in a trace of its own that links to the append, delivery →
 * isolate → append. Both are printed as trees; a span whose parent is missing is a fault.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { ProjectApi, Trace } from "iterate/node";
import type { RpcStub } from "capnweb";
import { repositoryRoot } from "../state.js";

const run = promisify(execFile);

/** Spans leave their process after at most 5 s. */
const keptWithinMs = 45_000;

export interface Walk {
  readonly webhook: Trace;
  readonly delivery: Trace;
}

/** The two traces of the event at `offset`, once all of the walk is kept. Throws a sentence that says what is missing. */
export async function walkOf(project: RpcStub<ProjectApi>, path: string, offset: number): Promise<Walk> {
  const deadline = performance.now() + keptWithinMs;
  for (;;) {
    const found = await lookUp(project, path, offset);
    if (typeof found !== "string") return found;
    if (performance.now() > deadline)
      throw new Error(`the walk from the event at offset ${offset} of ${path} is not whole: ${found}`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

/** A tree for people, as `iterate trace` prints it. */
export async function printed(traceId: string, project: string, baseUrl: string, token: string): Promise<string> {
  const program = join(repositoryRoot, "libs/sdk/dist/cli/main.js");
  const { stdout } = await run(process.execPath, [program, "trace", traceId, "--project", project], {
    env: { PATH: process.env.PATH, ITERATE_BASE_URL: baseUrl, ITERATE_ADMIN_TOKEN: token },
    timeout: 30_000,
  });
  return stdout;
}

async function lookUp(project: RpcStub<ProjectApi>, path: string, offset: number): Promise<Walk | string> {
  const webhook = await project.traces.ofEvent({ path, offset });
  const missing = missingIn(webhook, [
    ["POST", "ingress"],
    ["ContextService/Append", "context"],
    ["publish ctx.", "context"],
  ]);
  if (missing !== null) return `the webhook's trace ${webhook.traceId} ${missing}`;
  let reason = "no trace is linked to the append";
  for (const traceId of new Set(webhook.linkedFrom.map((link) => link.traceId))) {
    const delivery = await project.traces.get(traceId);
    const lacks = missingIn(delivery, [
      ["deliver", "runner"],
      ["IsolateService/Invoke", "runner"],
      ["append", "context"],
      ["publish ctx.", "context"],
    ]);
    if (lacks === null) return { webhook, delivery };
    reason = `the delivery's trace ${traceId} ${lacks}`;
  }
  return reason;
}

function missingIn({ spans }: Trace, wanted: readonly (readonly [name: string, service: string])[]): string | null {
  const known = new Set(spans.map(({ spanId }) => spanId));
  const orphan = spans.find(({ parentSpanId }) => parentSpanId !== undefined && !known.has(parentSpanId));
  if (orphan !== undefined) return `holds ${JSON.stringify(orphan.name)} of ${orphan.service}, whose parent is missing`;
  const absent = wanted.find(([name, service]) => !spans.some((span) => span.name.includes(name) && span.service === service));
  return absent === undefined ? null : `holds no span ${JSON.stringify(absent[0])} of ${absent[1]}`;
}
