/** `iterate explain`: why something is, or is not, done. */
import type { Command } from "commander";
import type { ExplainSubject, Explanation, Reason } from "../api/explain.js";
import { connect, withContextFlags, type ContextFlags } from "./command.js";
import { UsageError } from "./failure.js";
import { jsonLine, printable } from "./output.js";
import type { Surroundings } from "./surroundings.js";

export function addExplainCommand(program: Command, surroundings: Surroundings): void {
  withContextFlags(program.command("explain"))
    .description("say why an event was (not) delivered, or a subscription, schedule or run is (not) done")
    .argument("<what>", "event, subscription, schedule or run")
    .argument("<which>", "offset of the event or of the request of the run; name of the subscription; key of the schedule")
    .action(async (what: string, which: string, flags: ContextFlags) => {
      const subject = subjectOf(what, which);
      using connection = await connect(flags, surroundings);
      const explanation = await connection.session.projects.get(flags.project).cd(flags.context).explain(subject);
      await surroundings.print(flags.json ? jsonLine(explanation) : explained(`${what} ${which} of ${flags.context}`, explanation));
    });
}

function subjectOf(what: string, which: string): ExplainSubject {
  switch (what) {
    case "event":
      return { event: offsetOf(which) };
    case "run":
      return { run: offsetOf(which) };
    case "subscription":
      return { subscription: which };
    case "schedule":
      return { schedule: which };
    default:
      throw new UsageError(`${JSON.stringify(what)} is nothing that can be explained; say event, subscription, schedule or run`);
  }
}

function offsetOf(text: string): number {
  if (/^[1-9]\d{0,15}$/.test(text) && Number.isSafeInteger(Number(text))) return Number(text);
  throw new UsageError(`${JSON.stringify(text)} is no offset; offsets are counted from 1`);
}

function explained(title: string, { done, reasons, headOffset, away }: Explanation): string {
  const width = Math.max(...reasons.map(({ kind }) => kind.length), 0);
  return [
    `${printable(title)}: ${done ? "done" : "not done"} (the head is at offset ${headOffset})`,
    ...reasons.flatMap((reason) => reasonLines(reason, width)),
    ...away.map((service) => `  ${printable(service)} did not answer: what hangs on it is unknown`),
  ]
    .map((line) => `${line}\n`)
    .join("");
}

function reasonLines({ kind, subject, sentence, dueAt, owner }: Reason, width: number): string[] {
  const facts = [...(dueAt === undefined ? [] : [`due ${dueAt}`]), ...(owner === undefined ? [] : [`owner ${owner}`])];
  return [
    `  ${kind.padEnd(width)}  ${printable(subject)}: ${printable(sentence)}`,
    ...(facts.length === 0 ? [] : [`  ${"".padEnd(width)}  ${printable(facts.join(", "))}`]),
  ];
}
