/** `iterate invoke` and `iterate describe`: calls at a context, and what can be called. */
import type { Command } from "commander";
import { parseExpression } from "../expression/index.js";
import { errorCode } from "../lib/index.js";
import { connect, withContextFlags, type ContextFlags } from "./command.js";
import { UsageError } from "./failure.js";
import { jsonLine, printable } from "./output.js";
import type { Surroundings } from "./surroundings.js";

export function addInvokeCommands(program: Command, surroundings: Surroundings): void {
  const { print, note } = surroundings;

  withContextFlags(program.command("invoke"))
    .description("call an expression at a context and print what it answers; a stream item by item, until interrupted")
    .argument("<expression>", "for example 'itx.kv.get(\"colour\")'; - reads it from standard input")
    .action(async (text: string, flags: ContextFlags) => {
      const expression = checked(text === "-" ? (await surroundings.readInput()).trim() : text);
      const show = (value: unknown): Promise<void> => print(shown(value, flags));
      using connection = await connect(flags, surroundings);
      const { value, stream } = await connection.session.projects
        .get(flags.project)
        .cd(flags.context)
        .call({ expression, onItem: (item) => show(item) });
      if (stream === undefined) {
        if (value !== undefined) await show(value);
        return;
      }
      const signal = surroundings.interruption();
      const interrupted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      await Promise.race([stream.closed(), interrupted]);
    });

  withContextFlags(program.command("describe"))
    .description("say what a context answers, or what an expression is and how it is called")
    .argument("[expression]", "for example itx.kv; without it, the context")
    .action(async (text: string | undefined, flags: ContextFlags) => {
      using connection = await connect(flags, surroundings);
      const context = connection.session.projects.get(flags.project).cd(flags.context);
      const description = await (text === undefined ? context.describe() : context.describe(checked(text)));
      if (flags.json) return print(jsonLine(description));
      await print(`${description.text.trimEnd().split("\n").map(printable).join("\n")}\n`);
      if (!description.mayCall) note("it cannot be called now\n");
    });
}

/** A slip in an expression is one of usage: nothing was asked of the deployment yet. */
function checked(text: string): string {
  try {
    parseExpression(text);
    return text;
  } catch (error) {
    if (errorCode(error) !== "INVALID_INPUT") throw error;
    throw new UsageError((error as Error).message);
  }
}

/** One line for programs; for a person indented, text as it is. */
function shown(value: unknown, { json }: ContextFlags): string {
  if (json) return jsonLine(value);
  if (value instanceof Uint8Array) return Buffer.from(value).toString("utf8");
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return `${text.split("\n").map(printable).join("\n")}\n`;
}
