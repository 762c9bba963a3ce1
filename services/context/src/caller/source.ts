/**
 * The stamp: an event's `source` as it is stored. A writer gives its processor label and nothing else; the rest is what the
 * platform vouches for.
 */
import { itx } from "iterate/events";
import type { OccurrenceLabel, ProcessorLabel } from "../log/contract.js";
import type { Writer } from "./contract.js";

/** Stamps the events of one append to the context at `path`. One text serves all events with the same label. */
export class SourceStamp {
  readonly #head: string;
  readonly #tail: string;
  readonly #plain: string;
  readonly #setting: string;
  #lastLabel: ProcessorLabel | null = null;
  #lastText = "";

  /** @param occurrence for what a schedule appends. */
  constructor(writer: Writer, path: string, occurrence?: OccurrenceLabel) {
    const { chain, depth } = writer.cause;
    const origin = JSON.stringify(writer.origin ?? path);
    const principal = writer.principal === null ? "" : `,"principal":${JSON.stringify(writer.principal)}`;
    this.#head = `{"origin":${origin},"cause":{"chain":${JSON.stringify(chain)},"depth":${depth}}${principal}`;
    const schedule = occurrence === undefined ? "" : `,"schedule":${JSON.stringify(occurrence)}`;
    this.#tail = `${schedule}${writer.isPlatform ? ',"platform":true' : ""}}`;
    this.#plain = this.#head + this.#tail;
    // A firing is held to the rules of whoever set it.
    this.#setting = `,"by":${JSON.stringify(writer.kind)}${this.#tail}`;
  }

  /** JSON of the source of an event of a type with this label. */
  text(type: string, label: ProcessorLabel | null): string {
    if (type === itx.scheduleSet.type) return `${this.#head}${processorText(label)}${this.#setting}`;
    if (label === null) return this.#plain;
    if (label !== this.#lastLabel) {
      this.#lastText = this.#head + processorText(label) + this.#tail;
      this.#lastLabel = label;
    }
    return this.#lastText;
  }
}

function processorText(label: ProcessorLabel | null): string {
  if (label === null) return "";
  const { slug, version, whileProcessing } = label;
  return `,"processor":${JSON.stringify(whileProcessing === null ? { slug, version } : { slug, version, whileProcessing })}`;
}
