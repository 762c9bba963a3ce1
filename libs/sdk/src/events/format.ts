/**
 * Formats of stored payloads. What is stored is never rewritten: a reader lifts a payload of an earlier format, one step at a time, to
 * the newest it knows, and refuses one that is newer.
 */
import { codedError } from "../lib/coded-error.js";
import type { EventTypeDeclaration } from "./event-type.js";

/** Where a payload is from, for the words of an error. */
export interface StoredPayload {
  /** Offset of the event, when it has one. */
  readonly offset?: number;
  /** Format it was written in; 1 is the first. */
  readonly formatVersion: number;
  readonly payload: unknown;
}

/**
 * A payload in the newest format of its type. One that fits no earlier shape comes back lifted as far as its upcasts take it: what it
 * may hold is for the reader's schema to say.
 *
 * @throws CodedError UPGRADE_REQUIRED{type, formatVersion, known}, retryable: the format is newer than this release knows.
 */
export function newestFormat(declaration: EventTypeDeclaration, { offset, formatVersion, payload }: StoredPayload): unknown {
  const { type, formatVersion: known, earlier } = declaration;
  if (formatVersion > known) {
    throw codedError(
      "UPGRADE_REQUIRED",
      `the event of type ${type}${offset === undefined ? "" : ` at offset ${offset}`} has format ${formatVersion}; this release reads up to ${known}: upgrade it`,
      { type, formatVersion, known, ...(offset === undefined ? {} : { offset }) },
    );
  }
  return earlier.slice(Math.max(formatVersion, 1) - 1).reduce((lifted: unknown, { upcast }) => upcast(lifted), payload);
}
