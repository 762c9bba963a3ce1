/** The command line as a whole: parse, run, and answer with an exit code. */
import { Command } from "commander";
import { addAdminCommands } from "./admin.js";
import { addArchiveCommands } from "./archives.js";
import { addEventCommands } from "./events.js";
import { addExplainCommand } from "./explain.js";
import { exitCodes, failureOf } from "./failure.js";
import { addLogsCommand } from "./logs.js";
import { addInvokeCommands } from "./invoke.js";
import { addProjectCommands } from "./projects.js";
import { addScheduleCommands } from "./schedules.js";
import type { Surroundings } from "./surroundings.js";
import { addTraceCommand } from "./trace.js";
import { addWebhookCommands } from "./webhooks.js";

const help = `
Environment:
  ITERATE_BASE_URL     the deployment, default http://localhost:7400
  ITERATE_ADMIN_TOKEN  the admin token; without it the nearest .iterate/admin-token is read

Exit codes:
  0 succeeded   1 refused or failed   2 wrong usage   3 unauthenticated or forbidden   4 unavailable, may be retried`;

/** Runs `args` (without program names). Never rejects. */
export async function runCommandLine(args: readonly string[], version: string, surroundings: Surroundings): Promise<number> {
  const pending: Promise<void>[] = [];
  const program = new Command("iterate")
    .description("Work with an Iterate deployment.")
    .version(version)
    .addHelpText("after", help)
    .configureOutput({
      writeOut: (text) => void pending.push(surroundings.print(text)),
      writeErr: (text) => surroundings.note(text),
    })
    .exitOverride();
  addAdminCommands(program, surroundings);
  addArchiveCommands(program, surroundings);
  addProjectCommands(program, surroundings);
  addEventCommands(program, surroundings);
  addInvokeCommands(program, surroundings);
  addExplainCommand(program, surroundings);
  addScheduleCommands(program, surroundings);
  addWebhookCommands(program, surroundings);
  addLogsCommand(program, surroundings);
  addTraceCommand(program, surroundings);
  try {
    await program.parseAsync([...args], { from: "user" });
    return exitCodes.succeeded;
  } catch (thrown) {
    const { exitCode, report } = failureOf(thrown, args.includes("--json"));
    if (report !== "") surroundings.note(report);
    return exitCode;
  } finally {
    await Promise.all(pending);
  }
}
