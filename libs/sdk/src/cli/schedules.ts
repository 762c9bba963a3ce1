/** `iterate schedules`: what is appended to a context later, again and again, or by the calendar. */
import { Option, type Command } from "commander";
import type { z } from "zod";
import type { itx } from "../events/index.js";
import { connect, withContextFlags, type ContextFlags } from "./command.js";
import { parseCount, parseJson } from "./event-input.js";
import { UsageError } from "./failure.js";
import { jsonLine, table } from "./output.js";
import type { Surroundings } from "./surroundings.js";

type Definition = z.infer<typeof itx.scheduleSet.payload>;
type When = Definition["when"];

interface Schedule extends Definition {
  readonly scheduledAtOffset: number;
  readonly nextAt: string | null;
  readonly failedAtOffset: number | null;
}

interface SetFlags extends ContextFlags {
  readonly at?: string;
  readonly after?: string;
  readonly every?: string;
  readonly cron?: string;
  readonly zone?: string;
  readonly catchUp?: "coalesce" | "skip" | "all";
  readonly max?: string;
}

interface CancelFlags extends ContextFlags {
  readonly ifOffset?: string;
}

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const durationHelp = "such as 90s, 5m, 2h or 1d";

export function addScheduleCommands(program: Command, surroundings: Surroundings): void {
  const { print } = surroundings;
  const schedules = program.command("schedules").description("events that are appended later, again and again, or by the calendar");
  const call = async (flags: ContextFlags, method: string, ...args: readonly unknown[]): Promise<unknown> => {
    using connection = await connect(flags, surroundings);
    const context = connection.session.projects.get(flags.project).cd(flags.context);
    return await context.invoke(["itx", "schedules", [method, ...args]] as Parameters<typeof context.invoke>[0]);
  };

  withContextFlags(schedules.command("list"))
    .description("list the schedules of a context, and when each is due")
    .action(async (flags: ContextFlags) => {
      const all = (await call(flags, "list")) as readonly Schedule[];
      if (flags.json) await print(jsonLine(all));
      else if (all.length === 0) await print("no schedules yet; set one with `iterate schedules set`\n");
      else await print(table(["KEY", "WHEN", "NEXT", "EVENTS", "OFFSET"], all.map(row)));
    });

  withContextFlags(schedules.command("set"))
    .description("append an event later; a key that is set again replaces its schedule")
    .argument("<key>", "names the schedule in its context")
    .argument("<type>", "event type, for example acme/report-due")
    .argument("[payload]", "JSON; - reads it from standard input")
    .option("--at <time>", "once, at an ISO 8601 time with its offset from UTC")
    .option("--after <duration>", `once, so long from now: ${durationHelp}`)
    .option("--every <duration>", `again and again: ${durationHelp}`)
    .option("--cron <pattern>", "five fields on the clock of --zone, for example '0 9 * * MON-FRI'")
    .option("--zone <name>", "time zone of the IANA database, with --cron; UTC when absent")
    .addOption(new Option("--catch-up <policy>", "with --cron, what to do about missed ones").choices(["coalesce", "skip", "all"]))
    .option("--max <count>", "with --catch-up all, how many of them")
    .action(async (key: string, type: string, payload: string | undefined, flags: SetFlags) => {
      const when = whenOf(flags);
      const text = payload === "-" ? await surroundings.readInput() : payload;
      const event = { type, ...(text === undefined ? {} : { payload: parseJson("the payload", text) }) };
      const receipt = (await call(flags, "set", { key, when, events: [event] })) as Pick<Schedule, "key" | "scheduledAtOffset">;
      await print(
        flags.json ? jsonLine(receipt) : table(["schedule", receipt.key], [["offset", String(receipt.scheduledAtOffset)]]),
      );
    });

  withContextFlags(schedules.command("cancel"))
    .description("take a schedule away")
    .argument("<key>", "its key")
    .option("--if-offset <offset>", "only the one that the event at this offset set")
    .action(async (key: string, flags: CancelFlags) => {
      const options = flags.ifOffset === undefined ? [] : [{ ifScheduledAtOffset: parseCount("--if-offset", flags.ifOffset, 0) }];
      const answer = (await call(flags, "cancel", key, ...options)) as { readonly cancelled: boolean };
      if (flags.json) await print(jsonLine(answer));
      else await print(answer.cancelled ? "cancelled\n" : "there is no such schedule\n");
    });
}

/** Throws UsageError unless exactly one time is given. */
function whenOf({ at, after, every, cron, zone, catchUp, max }: SetFlags): When {
  const given = [at, after, every, cron].filter((flag) => flag !== undefined);
  if (given.length !== 1) throw new UsageError("say when by exactly one of --at, --after, --every and --cron");
  if (cron === undefined && (zone ?? catchUp ?? max) !== undefined)
    throw new UsageError("--zone, --catch-up and --max belong to --cron");
  if ((catchUp === "all") !== (max !== undefined)) throw new UsageError("--catch-up all and --max belong together");
  if (at !== undefined) return { at };
  if (after !== undefined) return { afterMs: durationOf("--after", after) };
  if (every !== undefined) return { everyMs: durationOf("--every", every) };
  return {
    cron: cron!,
    timeZone: zone ?? "UTC",
    ...(catchUp === undefined ? {} : { catchUp }),
    ...(max === undefined ? {} : { max: parseCount("--max", max, 1) }),
  };
}

/** Milliseconds. Throws UsageError. */
function durationOf(flag: string, text: string): number {
  const parts = /^(\d{1,8})(ms|s|m|h|d)$/.exec(text);
  if (parts === null) throw new UsageError(`${flag} ${text} is no duration ${durationHelp}`);
  return Number(parts[1]) * unitMs[parts[2] as keyof typeof unitMs];
}

function row({ key, when, nextAt, events, scheduledAtOffset, failedAtOffset }: Schedule): string[] {
  const types = events.map(({ type }) => type);
  const shown = types.length > 1 ? `${types[0]} and ${types.length - 1} more` : (types[0] ?? "");
  return [key, words(when), nextAt ?? `refused, see offset ${failedAtOffset}`, shown, String(scheduledAtOffset)];
}

function words(when: When): string {
  if ("at" in when) return `at ${when.at}`;
  if ("afterMs" in when) return `after ${when.afterMs / 1_000} s`;
  if ("everyMs" in when) return `every ${when.everyMs / 1_000} s`;
  return `${when.cron} ${when.timeZone}`;
}
