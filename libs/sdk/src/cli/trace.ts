/** `iterate trace`: one trace as a tree, by its id or by an event that was committed in it. */
import type { Command } from "commander";
import type { Trace } from "../api/telemetry.js";
import { connect, contextPath, withCommonFlags, type CommonFlags } from "./command.js";
import { parseCount } from "./event-input.js";
import { UsageError } from "./failure.js";
import { jsonLine } from "./output.js";
import type { Surroundings } from "./surroundings.js";
import { traceTree } from "./trace-tree.js";

interface TraceFlags extends CommonFlags {
  readonly project?: string;
  readonly event?: readonly string[];
}

export function addTraceCommand(program: Command, surroundings: Surroundings): void {
  withCommonFlags(program.command("trace"))
    .description("print a trace as a tree, with what caused it and what it caused")
    .argument("[trace-id]", "32 hexadecimal characters")
    .option("--project <slug>", "only what is about this project")
    .option("--event <project context offset...>", "the trace that committed this event, for example --event shop /orders 12")
    .action(async (traceId: string | undefined, flags: TraceFlags) => {
      const trace = await read(traceId, flags, surroundings);
      await surroundings.print(flags.json ? jsonLine(trace) : traceTree(trace));
    });
}

async function read(traceId: string | undefined, flags: TraceFlags, surroundings: Surroundings): Promise<Trace> {
  if ((traceId === undefined) === (flags.event === undefined))
    throw new UsageError(
      "name a trace id, or the event whose trace is meant: iterate trace <trace-id>, iterate trace --event <project> <context> <offset>",
    );
  if (flags.event !== undefined) {
    const [project, path, offset, ...rest] = flags.event;
    if (project === undefined || path === undefined || offset === undefined || rest.length > 0) {
      throw new UsageError("--event takes three words: project, context and offset");
    }
    const place = { path: contextPath(path), offset: parseCount("--event's offset", offset, 1) };
    using connection = await connect(flags, surroundings);
    return await connection.session.projects.get(project).traces.ofEvent(place);
  }
  using connection = await connect(flags, surroundings);
  const { session } = connection;
  const id = traceId ?? "";
  return flags.project === undefined ? await session.traces.get(id) : await session.projects.get(flags.project).traces.get(id);
}
