/** `iterate events`: append to, read and follow the log of a context. */
import type { Command } from "commander";
import type { EventsPage } from "../api/context.js";
import type { StreamEvent } from "../stream/event.js";
import { connect, withContextFlags, type ContextFlags } from "./command.js";
import { parseCount, parseJson } from "./event-input.js";
import { follow } from "./follow.js";
import { eventLine, jsonLine } from "./output.js";
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
    for (const event of all) await print(flags.json ? jsonLine(event) : eventLine(event));
  };

  withContextFlags(events.command("append"))
    .description("append one event and print it as committed")
    .argument("<type>", "event type, for example acme/order-placed")
    .argument("[payload]", "JSON; - reads it from standard input")
    .option("--metadata <json>", "JSON kept beside the payload")
    .option("--key <key>", "idempotency key: sending the same event again answers the stored one")
    .option("--ephemeral", "tell it to those who follow the log now, and do not store it")
    .action(async (type: string, payload: string | undefined, flags: AppendFlags) => {
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
      let left = parseCount("--limit", flags.limit, 1);
      let afterOffset = flags.after === undefined ? 0 : parseCount("--after", flags.after, 0);
      using connection = await connect(flags, surroundings);
      using context = await connection.session.projects.get(flags.project).cd(flags.context);
      for (let atHead = false; left > 0 && !atHead;) {
        const page: EventsPage = await context.readEvents({ afterOffset, limit: Math.min(left, maxPage), ...typesOf(flags) });
        await printAll(flags, page.events);
        left -= page.events.length;
        atHead = page.atHead;
        afterOffset = page.scannedThroughOffset;
        if (left <= 0 && !atHead && !flags.json) note(`more events follow; go on with --after ${afterOffset}\n`);
      }
    });

  withReadFlags(events.command("tail"))
    .description("print events as they commit, until interrupted; a lost connection goes on where it was")
    .option("--ephemeral", "ephemeral events too, those that come from now on")
    .option("--limit <count>", "end after so many events")
    .action(async (flags: TailFlags) => {
      await follow({
        connect: () => connect(flags, surroundings),
        project: flags.project,
        context: flags.context,
        ...(flags.after === undefined ? {} : { afterOffset: parseCount("--after", flags.after, 0) }),
        ...(flags.limit === undefined ? {} : { limit: parseCount("--limit", flags.limit, 1) }),
        ...(flags.ephemeral === undefined ? {} : { includeEphemeral: true }),
        ...typesOf(flags),
        onEvents: (all) => printAll(flags, all),
        onLost: ({ message }, waitMs, afterOffset) =>
          note(`${message}; trying in ${waitMs / 1000} s${afterOffset === undefined ? "" : `, after offset ${afterOffset}`}\n`),
        pause: surroundings.pause,
        signal: surroundings.interruption(),
      });
    });
}

function withReadFlags(command: Command): Command {
  return withContextFlags(command)
    .option("--after <offset>", "only events with a greater offset")
    .option("--type <type...>", "only events of these types");
}

function typesOf({ type }: ReadFlags): { readonly types?: readonly string[] } {
  return type === undefined ? {} : { types: type };
}
