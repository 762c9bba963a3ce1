/**
 * The lines of an archive: JSON, one value to a line, UTF-8.
 *
 *     {"kind":"iterate-archive","version":1,"of":"project","owner":"prj_…","slug":"…","exportedAt":"…"}
 *     {"kind":"context","path":"/","firstOffset":1,"through":7,"reservedThrough":7}
 *     {"kind":"event","offset":1,"type":"…","format":1,"at":1700000000000000,"source":"{…}","payload":"{…}"}
 *     {"kind":"context-end","path":"/","events":7,"sha256":"…"}
 *     {"kind":"end","contexts":1,"events":7,"sha256":"…"}
 *
 * Bodies and sources are strings that hold the stored JSON text, so every byte of it survives. A context's checksum is over its lines
 * from `context` to its last event, the archive's over everything before its `end`; line feeds included.
 */
import { createHash, type Hash } from "node:crypto";
import { archiveHeaderLine, readArchiveHeader, type ArchiveHeader } from "@iterate-platform/service/archive-header";
import { assertContextPath, codedError } from "iterate/lib";
import type { ArchivedContext, ArchivedEvent } from "./contract.js";

/** An event of the largest size, every character of it escaped, with room for what is beside its bodies. */
export const maxLineBytes = 20 * 1_048_576;

/** Makes the lines of one archive, in order. */
export class ArchiveLines {
  readonly #all = createHash("sha256");
  #context = createHash("sha256");
  #path = "";
  #contextEvents = 0;
  contexts = 0;
  events = 0;

  header(header: ArchiveHeader): Buffer {
    return this.#line(archiveHeaderLine(header));
  }

  context(context: ArchivedContext): Buffer {
    this.#context = createHash("sha256");
    this.#path = context.path;
    this.#contextEvents = 0;
    const { path, firstOffset, through, reservedThrough } = context;
    return this.#ofContext({ kind: "context", path, firstOffset, through, reservedThrough });
  }

  event({
    offset,
    type,
    formatVersion,
    createdAtUs,
    appendId,
    idempotencyKey,
    source,
    traceparent,
    payload,
    metadata,
  }: ArchivedEvent): Buffer {
    this.#contextEvents += 1;
    this.events += 1;
    return this.#ofContext({
      kind: "event",
      offset,
      type,
      format: formatVersion,
      at: createdAtUs,
      ...(appendId === null ? {} : { append: appendId }),
      ...(idempotencyKey === null ? {} : { key: idempotencyKey }),
      source,
      ...(traceparent === null ? {} : { trace: traceparent }),
      ...(payload === null ? {} : { payload }),
      ...(metadata === null ? {} : { metadata }),
    });
  }

  contextEnd(): Buffer {
    this.contexts += 1;
    const end = { kind: "context-end", path: this.#path, events: this.#contextEvents, sha256: this.#context.digest("hex") };
    return this.#line(JSON.stringify(end));
  }

  end(): Buffer {
    const { contexts, events } = this;
    return Buffer.from(`${JSON.stringify({ kind: "end", contexts, events, sha256: this.#all.digest("hex") })}\n`);
  }

  #ofContext(value: unknown): Buffer {
    const line = this.#line(JSON.stringify(value));
    this.#context.update(line);
    return line;
  }

  #line(text: string): Buffer {
    const line = Buffer.from(`${text}\n`);
    this.#all.update(line);
    return line;
  }
}

export type ArchiveItem =
  | { readonly kind: "header"; readonly header: ArchiveHeader }
  | { readonly kind: "context"; readonly context: ArchivedContext }
  | { readonly kind: "event"; readonly event: ArchivedEvent }
  /** The context is complete and what its checksum says. */
  | { readonly kind: "context-end" }
  /** So is the archive: nothing may follow. */
  | { readonly kind: "end"; readonly contexts: number; readonly events: number };

/** Reads the lines of one archive in order, and accepts nothing that is not exactly what was written. */
export class ArchiveReader {
  readonly #all = createHash("sha256");
  #hash: Hash = createHash("sha256");
  #line = 0;
  #context: ArchivedContext | null = null;
  #lastOffset = 0;
  #contextEvents = 0;
  #contexts = 0;
  #events = 0;
  #isEnded = false;

  /** @throws CodedError INVALID_INPUT, naming the line; UPGRADE_REQUIRED. */
  read(line: Buffer): ArchiveItem {
    this.#line += 1;
    if (this.#isEnded) throw this.#wrong("something follows the end of the archive");
    if (this.#line === 1) {
      const header = readArchiveHeader(line.toString("utf8"));
      this.#all.update(line).update("\n");
      return { kind: "header", header };
    }
    const fields = new Fields(this.#parse(line), (problem) => this.#wrong(problem));
    const kind = fields.text("kind");
    if (kind === "end") return this.#end(fields);
    this.#all.update(line).update("\n");
    if (kind === "context-end") return this.#contextEnd(fields);
    if (kind === "context") return this.#begin(fields, line);
    if (kind === "event") return this.#event(fields, line);
    throw this.#wrong(`has the unknown kind ${JSON.stringify(kind.slice(0, 32))}`);
  }

  /** The input ended. @throws CodedError INVALID_INPUT unless the archive did. */
  finish(): void {
    if (!this.#isEnded)
      throw codedError("INVALID_INPUT", `the archive ends in its middle, after line ${this.#line}`, { line: this.#line });
  }

  #begin(fields: Fields, line: Buffer): ArchiveItem {
    if (this.#context !== null) throw this.#wrong(`begins a context inside of ${this.#context.path}`);
    const context: ArchivedContext = {
      path: fields.text("path"),
      firstOffset: fields.integer("firstOffset", 1),
      through: fields.integer("through", 0),
      reservedThrough: fields.integer("reservedThrough", 0),
    };
    try {
      assertContextPath(context.path);
    } catch {
      throw this.#wrong(`has the path ${JSON.stringify(context.path.slice(0, 64))}, which is none of a context`);
    }
    if (context.reservedThrough < context.through) throw this.#wrong("has reservedThrough below through");
    this.#context = context;
    this.#lastOffset = 0;
    this.#contextEvents = 0;
    this.#hash = createHash("sha256").update(line).update("\n");
    return { kind: "context", context };
  }

  #event(fields: Fields, line: Buffer): ArchiveItem {
    if (this.#context === null) throw this.#wrong("is an event outside of a context");
    const event: ArchivedEvent = {
      offset: fields.integer("offset", 1),
      type: fields.text("type"),
      formatVersion: fields.integer("format", 1),
      createdAtUs: fields.integer("at", 1),
      appendId: fields.optionalText("append"),
      idempotencyKey: fields.optionalText("key"),
      source: fields.text("source"),
      traceparent: fields.optionalText("trace"),
      payload: fields.optionalText("payload"),
      metadata: fields.optionalText("metadata"),
    };
    if (event.offset <= this.#lastOffset || event.offset > this.#context.through)
      throw this.#wrong(`has offset ${event.offset} after ${this.#lastOffset}, in a context that ends at ${this.#context.through}`);
    this.#lastOffset = event.offset;
    this.#contextEvents += 1;
    this.#hash.update(line).update("\n");
    return { kind: "event", event };
  }

  #contextEnd(fields: Fields): ArchiveItem {
    if (this.#context === null) throw this.#wrong("ends a context that did not begin");
    const { path } = this.#context;
    if (fields.text("path") !== path) throw this.#wrong(`ends another context than ${path}`);
    if (fields.integer("events", 0) !== this.#contextEvents)
      throw this.#wrong(`says ${fields.integer("events", 0)} events of ${path}; there are ${this.#contextEvents}`);
    if (fields.text("sha256") !== this.#hash.digest("hex"))
      throw this.#wrong(`has not the checksum of ${path}: the archive is damaged`);
    this.#context = null;
    this.#contexts += 1;
    this.#events += this.#contextEvents;
    return { kind: "context-end" };
  }

  #end(fields: Fields): ArchiveItem {
    if (this.#context !== null) throw this.#wrong(`ends the archive inside of ${this.#context.path}`);
    const [contexts, events] = [fields.integer("contexts", 0), fields.integer("events", 0)];
    if (contexts !== this.#contexts || events !== this.#events)
      throw this.#wrong(`says ${contexts} contexts and ${events} events; there are ${this.#contexts} and ${this.#events}`);
    if (fields.text("sha256") !== this.#all.digest("hex")) throw this.#wrong("has not the checksum of the archive: it is damaged");
    this.#isEnded = true;
    return { kind: "end", contexts, events };
  }

  #parse(line: Buffer): Readonly<Record<string, unknown>> {
    try {
      const value: unknown = JSON.parse(utf8.decode(line));
      if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
    } catch {
      // Said below.
    }
    throw this.#wrong("is not a JSON object in UTF-8");
  }

  #wrong(problem: string) {
    return codedError("INVALID_INPUT", `line ${this.#line} of the archive ${problem}`, { line: this.#line });
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Typed looks at the fields of a line. */
class Fields {
  readonly #value: Readonly<Record<string, unknown>>;
  readonly #wrong: (problem: string) => Error;

  constructor(value: Readonly<Record<string, unknown>>, wrong: (problem: string) => Error) {
    this.#value = value;
    this.#wrong = wrong;
  }

  text(name: string): string {
    const value = this.#value[name];
    if (typeof value !== "string") throw this.#wrong(`has no text ${name}`);
    return value;
  }

  optionalText(name: string): string | null {
    return this.#value[name] === undefined ? null : this.text(name);
  }

  integer(name: string, min: number): number {
    const value = this.#value[name];
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min)
      throw this.#wrong(`has no whole number ${name} from ${min} on`);
    return value;
  }
}
