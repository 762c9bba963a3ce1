/**
 * Stored sources as the bytes of field `source` of an event. A source is JSON that the platform stamped, so it mostly has one shape and
 * is translated byte by byte; whatever has another is parsed. Events that follow each other mostly share theirs.
 */
import { Source } from "@iterate-platform/proto/iterate/type/v1/event";
import { decodeSource } from "./stored-event.js";
import { Bytes, varintSize } from "./bytes.js";

/** Tags of `Event`, `Source`, `Cause` and `ProcessorLabel`. */
const [tagSource, tagOrigin, tagCause, tagPrincipal, tagProcessor, tagPlatform] = [0x3a, 0x0a, 0x12, 0x1a, 0x22, 0x28];
const [tagChain, tagDepth, tagSlug, tagVersion, tagWhileOffset, tagWhileType] = [0x0a, 0x10, 0x0a, 0x12, 0x18, 0x22];

const marks = (texts: readonly string[]): Buffer[] => texts.map((text) => Buffer.from(text));
const [beginsOrigin, beginsChain, beginsDepth, beginsPrincipal, beginsSlug, beginsVersion, beginsWhile, beginsType, platform] =
  marks([
    '{"origin":"',
    '","cause":{"chain":"',
    '","depth":',
    ',"principal":"',
    ',"processor":{"slug":"',
    '","version":"',
    '","whileProcessing":{"offset":',
    ',"type":"',
    ',"platform":true',
  ]) as [Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer];
const [quote, backslash, firstPrintable, zero, nine, brace] = [0x22, 0x5c, 0x20, 0x30, 0x39, 0x7d];
const maxInt32 = 2 ** 31 - 1;

/** Remembers the last source: make one for each page or stream. */
export class SourceBytes {
  readonly #scan = new StampScan();
  #text: Buffer | undefined;
  #field!: Buffer;

  /** The field of the source whose JSON is `text[at … end)`. The next call may change it. Throws when that is no source. */
  field(text: Buffer, at: number, end: number): Buffer {
    const length = end - at;
    const last = this.#text;
    if (last?.length !== length || text.compare(last, 0, length, at, end) !== 0) {
      this.#field =
        this.#scan.field(text, at, end) ??
        fieldOf(Buffer.from(Source.encode(decodeSource(text.toString("utf8", at, end))).finish()));
      this.#text = Buffer.from(text.subarray(at, end));
    }
    return this.#field;
  }
}

function fieldOf(message: Buffer): Buffer {
  const bytes = new Bytes(message.length + 6);
  bytes.field(tagSource, message, 0, message.length);
  return bytes.written();
}

/** Translates a stamp in the order of its keys. */
class StampScan {
  #text!: Buffer;
  #at = 0;
  #end = 0;

  /** `undefined` for what is not a plain stamp. */
  field(text: Buffer, at: number, end: number): Buffer | undefined {
    this.#text = text;
    this.#at = at;
    this.#end = end;
    // No value is longer in the message than its keys and quotes are in the text.
    const out = new Bytes(end - at + 16);
    return this.#translate(out) ? fieldOf(out.written()) : undefined;
  }

  #translate(out: Bytes): boolean {
    const text = this.#text;
    if (!this.#takes(beginsOrigin)) return false;
    const [origin, originEnd] = [this.#at, this.#string()];
    if (originEnd < 0 || !this.#takes(beginsChain)) return false;
    const [chain, chainEnd] = [this.#at, this.#string()];
    if (chainEnd < 0 || !this.#takes(beginsDepth)) return false;
    const depth = this.#integer();
    if (depth < 0 || depth > maxInt32 || !this.#takesByte(brace)) return false;
    if (originEnd > origin) out.field(tagOrigin, text, origin, originEnd);
    out.byte(tagCause);
    out.varint(fieldSize(chainEnd - chain) + (depth === 0 ? 0 : 1 + varintSize(depth)));
    if (chainEnd > chain) out.field(tagChain, text, chain, chainEnd);
    if (depth !== 0) out.number(tagDepth, depth);
    if (this.#takes(beginsPrincipal)) {
      const [principal, principalEnd] = [this.#at, this.#string()];
      if (principalEnd < 0 || !this.#takesByte(quote)) return false;
      out.field(tagPrincipal, text, principal, principalEnd);
    }
    if (this.#takes(beginsSlug) && !this.#processor(out)) return false;
    if (this.#takes(platform)) out.number(tagPlatform, 1);
    return this.#takesByte(brace) && this.#at === this.#end;
  }

  #processor(out: Bytes): boolean {
    const text = this.#text;
    const [slug, slugEnd] = [this.#at, this.#string()];
    if (slugEnd < 0 || !this.#takes(beginsVersion)) return false;
    const [version, versionEnd] = [this.#at, this.#string()];
    if (versionEnd < 0) return false;
    let [offset, type, typeEnd] = [0, 0, 0];
    if (this.#takes(beginsWhile)) {
      offset = this.#integer();
      if (offset < 0 || !this.#takes(beginsType)) return false;
      [type, typeEnd] = [this.#at, this.#string()];
      if (typeEnd < 0 || !this.#takesByte(quote) || !this.#takesByte(brace)) return false;
    } else if (!this.#takesByte(quote)) return false;
    if (!this.#takesByte(brace)) return false;
    out.byte(tagProcessor);
    out.varint(
      fieldSize(slugEnd - slug) +
        fieldSize(versionEnd - version) +
        (offset === 0 ? 0 : 1 + varintSize(offset)) +
        fieldSize(typeEnd - type),
    );
    if (slugEnd > slug) out.field(tagSlug, text, slug, slugEnd);
    if (versionEnd > version) out.field(tagVersion, text, version, versionEnd);
    if (offset !== 0) out.number(tagWhileOffset, offset);
    if (typeEnd > type) out.field(tagWhileType, text, type, typeEnd);
    return true;
  }

  #takes(mark: Buffer): boolean {
    const [text, at] = [this.#text, this.#at];
    if (at + mark.length > this.#end) return false;
    for (let n = 0; n < mark.length; n += 1) if (text[at + n] !== mark[n]) return false;
    this.#at = at + mark.length;
    return true;
  }

  #takesByte(byte: number): boolean {
    if (this.#at >= this.#end || this.#text[this.#at] !== byte) return false;
    this.#at += 1;
    return true;
  }

  /** Goes to the quote that ends a string without escapes and answers where it is; −1 when there is none. */
  #string(): number {
    const text = this.#text;
    for (let at = this.#at; at < this.#end; at += 1) {
      const byte = text[at]!;
      if (byte === quote) return (this.#at = at);
      if (byte === backslash || byte < firstPrintable) return -1;
    }
    return -1;
  }

  /** Takes an integer that a number holds exactly; −1 when there is none. */
  #integer(): number {
    const from = this.#at;
    let value = 0;
    for (; this.#at < this.#end; this.#at += 1) {
      const digit = this.#text[this.#at]!;
      if (digit < zero || digit > nine) break;
      value = value * 10 + (digit - zero);
    }
    const digits = this.#at - from;
    return digits === 0 || (digits > 1 && this.#text[from] === zero) || digits > 15 ? -1 : value;
  }
}

/** Of a text of so many bytes, tag and length included; an empty one is left out. */
function fieldSize(length: number): number {
  return length === 0 ? 0 : 1 + varintSize(length) + length;
}
