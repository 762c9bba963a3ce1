/** `iterate events`: append to, read and follow the log of a context. */
import type { Command } from "commander";
import type { ContextCalls, EventsPage } from "../api/context.js";
import { eventCatalog, itx } from "../events/index.js";
import type { StreamEvent } from "../stream/event.js";
import { eventTypeProblem, platformTypePrefix } from "../stream/event-type.js";
import { connect, withContextFlags, type ContextFlags } from "./command.js";
import { parseCount, parseJson } from "./event-input.js";
import { UsageError } from "./failure.js";
import { follow } from "./follow.js";
import { eventLine, jsonLine, printable } from "./output.js";
import type { Surroundings } from "./surroundings.js";

interface AppendFlags extends ContextFlags {
  readonly metadata?: string;
  readonly key?: string;
  readonly ephemeral?: true;
}

interface ReadFlags extends ContextFlags {
  readonly after?: string;
  readonly type?: readonly string[];
}

interface TailFlags extends ReadFlags {
  readonly ephemeral?: true;
  readonly limit?: string;
}

/** Most events one page of the platform holds. */
const maxPage = 1000;

export function addEventCommands(program: Command, surroundings: Surroundings): void {
  const { print, note } = surroundings;
  const events = program.command("events").description("append to, read and follow the log of a context");
  const printAll = async (flags: ContextFlags, all: readonly StreamEvent[]): Promise<void> => {
    for (const event of all) await print(flags.json ? jsonLine(event) : eventLine(event, nextStep(event, flags)));
  };

  /** A context that is waited for, or looked for, and is not there yet may be mistyped. */
  const noteUnborn = async (flags: ContextFlags, context: Pick<ContextCalls, "readEvents">): Promise<void> => {
    // The root is there as long as the project is.
    if (flags.context === "/") return;
    const { events: any, scannedThroughOffset } = await context.readEvents({ limit: 1 });
    if (any.length === 0 && scannedThroughOffset === 0)
      note(`there is no context ${printable(flags.context)} in this project yet; the first append to it makes it\n`);
  };
  const noteTypes = (types: readonly string[] = []): void => {
    for (const type of types) {
      const full = platformTypePrefix + type;
      const problem = eventCatalog.has(full) ? `is not the platform's; that is ${JSON.stringify(full)}` : eventTypeProblem(type);
      if (problem !== null) note(`note: the type ${JSON.stringify(type)} ${problem}\n`);
    }
  };

  withContextFlags(events.command("append"))
    .description("append one event and print it as committed")
    .argument("<type>", "event type, for example acme/order-placed")
    .argument("[payload]", "JSON; - reads it from standard input")
    .option("--metadata <json>", "JSON kept beside the payload")
    .option("--key <key>", "idempotency key: sending the same event again answers the stored one")
    .option("--ephemeral", "tell it to those who follow the log now, and do not store it")
    .action(async (type: string, payload: string | undefined, flags: AppendFlags) => {
      if (/\s/.test(type))
        throw new UsageError(
          `the type ${JSON.stringify(type)} holds white space; the payload is an argument of its own, after the type`,
        );
      const text = payload === "-" ? await surroundings.readInput() : payload;
      const input = {
        type,
        ...(text === undefined ? {} : { payload: parseJson("the payload", text) }),
        ...(flags.metadata === undefined ? {} : { metadata: parseJson("--metadata", flags.metadata) }),
        ...(flags.key === undefined ? {} : { idempotencyKey: flags.key }),
        ...(flags.ephemeral === undefined ? {} : { ephemeral: true }),
      };
      using connection = await connect(flags, surroundings);
      await printAll(flags, await connection.session.projects.get(flags.project).cd(flags.context).append(input));
    });

  withReadFlags(events.command("read"))
    .description("print stored events, oldest first, and end")
    .option("--limit <count>", "most events to print", "100")
    .action(async (flags: ReadFlags & { readonly limit: string }) => {
      noteTypes(flags.type);
      let printed = 0;
      let left = parseCount("--limit", flags.limit, 1);
      let afterOffset = flags.after === undefined ? 0 : parseCount("--after", flags.after, 0);
      using connection = await connect(flags, surroundings);
      using context = await connection.session.projects.get(flags.project).cd(flags.context);
      for (let atHead = false; left > 0 && !atHead;) {
        const page: EventsPage = await context.readEvents({ afterOffset, limit: Math.min(left, maxPage), ...typesOf(flags) });
        await printAll(flags, page.events);
        printed += page.events.length;
        left -= page.events.length;
        atHead = page.atHead;
        afterOffset = page.scannedThroughOffset;
        if (left <= 0 && !atHead && !flags.json) note(`more events follow; go on with --after ${afterOffset}\n`);
      }
      if (printed === 0) await noteUnborn(flags, context);
    });

  withReadFlags(events.command("tail"))
    .description(
      "print events as they commit, from now on (--after 0: from the beginning), until interrupted; a lost connection goes on where it was",
    )
    .option("--ephemeral", "ephemeral events too, those that come from now on")
    .option("--limit <count>", "end after so many events")
    .action(async (flags: TailFlags) => {
      noteTypes(flags.type);
      await follow({
        connect: () => connect(flags, surroundings),
        project: flags.project,
        context: flags.context,
        ...(flags.after === undefined ? {} : { afterOffset: parseCount("--after", flags.after, 0) }),
        ...(flags.limit === undefined ? {} : { limit: parseCount("--limit", flags.limit, 1) }),
        ...(flags.ephemeral === undefined ? {} : { includeEphemeral: true }),
        ...typesOf(flags),
        onStart: (context) => noteUnborn(flags, context),
        onEvents: (all) => printAll(flags, all),
        onLost: ({ message }, waitMs, afterOffset) =>
          note(`${message}; trying in ${waitMs / 1000} s${afterOffset === undefined ? "" : `, after offset ${afterOffset}`}\n`),
        pause: surroundings.pause,
        signal: surroundings.interruption(),
      });
    });
}

/** What a person does about an event that waits for one. */
function nextStep({ type, payload }: StreamEvent, { project, context }: ContextFlags): string | undefined {
  if (type !== itx.subscriptionDeliveryHalted.type) return undefined;
  const halted = itx.subscriptionDeliveryHalted.payload.safeParse(payload);
  if (!halted.success) return undefined;
  const resume = `iterate events append ${itx.subscriptionDeliveryResumed.type} '${JSON.stringify({ name: halted.data.name })}'`;
  return `once it is mended: ${resume} --project ${project} --context ${context}`;
}

function withReadFlags(command: Command): Command {
  return withContextFlags(command)
    .option("--after <offset>", "only events with a greater offset")
    .option("--type <type...>", "only events of these types");
}

function typesOf({ type }: ReadFlags): { readonly types?: readonly string[] } {
  return type === undefined ? {} : { types: type };
}
