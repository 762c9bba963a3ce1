/** `iterate logs`: what the platform and the project's code wrote down about a project. */
import type { Command } from "commander";
import type { LogsPage } from "../api/telemetry.js";
import { toCodedError } from "../lib/coded-error.js";
import { connect, contextPath, projectHelp, withCommonFlags, type CommonFlags } from "./command.js";
import { UsageError } from "./failure.js";
import { reconnectLadderMs } from "./follow.js";
import { jsonLine, logLine } from "./output.js";
import type { Surroundings } from "./surroundings.js";

interface LogsFlags extends CommonFlags {
  readonly project: string;
  readonly context?: string;
  readonly since: string;
  readonly follow?: true;
}

/** How often a follower asks for more, ms. */
export const pollMs = 1_000;
const page = 1_000;

export function addLogsCommand(program: Command, surroundings: Surroundings): void {
  withCommonFlags(program.command("logs").requiredOption("--project <slug>", projectHelp))
    .description("print log records of a project, oldest first; the newest few seconds are still on their way")
    .option("--context <path>", "only records of this context and below", contextPath)
    .option("--since <time>", "age such as 30s, 10m, 2h, 1d, or an ISO 8601 time", "10m")
    .option("--follow", "go on with what is written, until interrupted")
    .action(async (flags: LogsFlags) => {
      const reader = new LogReader(flags, surroundings);
      if (flags.follow) await reader.follow(surroundings.interruption());
      else {
        await reader.toEnd();
        if (reader.printed === 0 && !flags.json)
          surroundings.note(`nothing is logged since ${reader.since}, or it is still on its way\n`);
      }
    });
}

/** Throws UsageError. */
export function sinceOf(text: string, nowMs: number): string {
  const age = /^(\d{1,6})([smhd])$/.exec(text);
  if (age !== null) return new Date(nowMs - Number(age[1]) * unitMs[age[2] as keyof typeof unitMs]).toISOString();
  const at = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : NaN;
  if (Number.isNaN(at)) throw new UsageError(`--since ${text} is neither an age such as 10m nor an ISO 8601 time`);
  return new Date(at).toISOString();
}

const unitMs = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

class LogReader {
  readonly #flags: LogsFlags;
  readonly #surroundings: Surroundings;
  readonly since: string;
  printed = 0;
  #pageToken: string | undefined;

  constructor(flags: LogsFlags, surroundings: Surroundings) {
    this.#flags = flags;
    this.#surroundings = surroundings;
    this.since = sinceOf(flags.since, surroundings.nowMs());
  }

  /** Prints from where it is to the end of what there is now, over one connection, and each `pollMs` what came since, if it goes on. */
  async toEnd(signal?: AbortSignal, onPage: () => void = () => undefined): Promise<void> {
    const { json, context, project } = this.#flags;
    using connection = await connect(this.#flags, this.#surroundings);
    using handle = await connection.session.projects.get(project);
    while (signal?.aborted !== true) {
      const answer: LogsPage = await handle.logs.read({
        since: this.since,
        limit: page,
        ...(context === undefined ? {} : { path: context }),
        ...(this.#pageToken === undefined ? {} : { pageToken: this.#pageToken }),
      });
      for (const record of answer.records) await this.#surroundings.print(json ? jsonLine(record) : logLine(record));
      this.printed += answer.records.length;
      this.#pageToken = answer.pageToken;
      onPage();
      if (!answer.atEnd) continue;
      if (signal === undefined) return;
      await this.#surroundings.pause(pollMs, signal);
    }
  }

  /** A lost connection goes on where it was; throws the failure that cannot be retried, comes first, or ends the ladder. */
  async follow(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      try {
        await this.toEnd(signal, () => (failures = 0));
      } catch (thrown) {
        const error = toCodedError(thrown);
        const waitMs = reconnectLadderMs[failures];
        if (!error.retryable || this.#pageToken === undefined || waitMs === undefined) throw error;
        failures += 1;
        this.#surroundings.note(`${error.message}; trying in ${waitMs / 1000} s\n`);
        await this.#surroundings.pause(waitMs, signal);
      }
    }
  }
}
