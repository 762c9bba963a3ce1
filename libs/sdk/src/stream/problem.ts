/** What went wrong without failing the batch, in a sentence for the processor's author: what it did to the state, and what mends it. */
import type { ProcessorProblem } from "./engine-ports.js";

/** The error itself is left out: it is logged beside the sentence, with its stack. */
export function problemSentence({ kind, slug, offset, type }: ProcessorProblem): string {
  const event = `the event at offset ${offset}${type === null ? "" : ` (${type})`}`;
  return `processor ${slug}: ${kind}: ${sentences[kind](offset === null ? "no single event" : event)}`;
}

const mend = "mend it and raise the contract's version, and the state is folded again from the whole log";

const sentences: { readonly [Kind in ProcessorProblem["kind"]]: (event: string) => string } = {
  "reduce-failed": (event) => `reduce threw for ${event}; the event is not in the state, and delivery goes on; ${mend}`,
  "malformed-payload": (event) =>
    `the payload of ${event} does not fit the contract's schema; the event is not in the state and was not processed; ${mend}`,
  "background-failed": (event) => `work in the background for ${event} failed; it is not tried again, and delivery goes on`,
};
