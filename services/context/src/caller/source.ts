/**
 * The stamp: an event's `source` as it is stored. A writer gives its processor label and nothing else; the rest is what the
 * platform vouches for.
 */
import type { ProcessorLabel } from "../log/contract.js";
import type { Writer } from "./contract.js";

/** Stamps the events of one append to the context at `path`. One text serves all events with the same label. */
export class SourceStamp {
  readonly #head: string;
  readonly #tail: string;
  readonly #plain: string;
  #lastLabel: ProcessorLabel | null = null;
  #lastText = "";

  constructor(writer: Writer, path: string) {
    const { chain, depth } = writer.cause;
    const origin = JSON.stringify(writer.origin ?? path);
    const principal = writer.principal === null ? "" : `,"principal":${JSON.stringify(writer.principal)}`;
    this.#head = `{"origin":${origin},"cause":{"chain":${JSON.stringify(chain)},"depth":${depth}}${principal}`;
    this.#tail = writer.isPlatform ? ',"platform":true}' : "}";
    this.#plain = this.#head + this.#tail;
  }

  /** JSON of the source of an event with this label. */
  text(label: ProcessorLabel | null): string {
    if (label === null) return this.#plain;
    if (label !== this.#lastLabel) {
      const { slug, version, whileProcessing } = label;
      const processor = whileProcessing === null ? { slug, version } : { slug, version, whileProcessing };
      this.#lastText = `${this.#head},"processor":${JSON.stringify(processor)}${this.#tail}`;
      this.#lastLabel = label;
    }
    return this.#lastText;
  }
}
