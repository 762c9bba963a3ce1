/**
 * Checks JSON as it lies in memory, in one pass and without building values: well-formed UTF-8, the grammar of RFC 8259, no key
 * twice in one object, no deeper than a bound. `JSON.parse` keeps the last of two equal keys and takes any depth, so a body that
 * two readers could understand differently would pass it.
 */
import { isUtf8 } from "node:buffer";

/** Deepest nesting of objects and arrays; the platform's own recursion stays far below its stack. */
export const maxJsonDepth = 128;

/** Up to this many keys of one object are compared pairwise; more go into a set. */
const pairwiseKeys = 12;

const quote = 0x22;
const backslash = 0x5c;

/** What is wrong with `bytes` as one JSON text, as the end of a sentence; `null` when nothing is. Never throws. */
export function jsonProblem(bytes: Buffer): string | null {
  if (!isUtf8(bytes)) return "is not valid UTF-8";
  try {
    new Scanner(bytes).document();
    return null;
  } catch (thrown) {
    if (thrown instanceof JsonProblem) return thrown.problem;
    throw thrown;
  }
}

class JsonProblem extends Error {
  constructor(readonly problem: string) {
    super(problem);
  }
}

class Scanner {
  readonly #bytes: Buffer;
  readonly #end: number;
  #at = 0;
  /** Start and end of the keys of the objects that are open, innermost last. */
  readonly #keys: number[] = [];

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.#end = bytes.length;
  }

  document(): void {
    this.#space();
    this.#value(0);
    this.#space();
    if (this.#at < this.#end) this.#fail("holds more than one JSON value");
  }

  #fail(problem: string): never {
    throw new JsonProblem(`${problem} (byte ${this.#at})`);
  }

  #space(): void {
    const bytes = this.#bytes;
    let at = this.#at;
    while (at < this.#end) {
      const byte = bytes[at]!;
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
      at += 1;
    }
    this.#at = at;
  }

  #value(depth: number): void {
    switch (this.#bytes[this.#at]) {
      case quote:
        return this.#string();
      case 0x7b:
        return this.#object(depth + 1);
      case 0x5b:
        return this.#array(depth + 1);
      case 0x74:
        return this.#word("true");
      case 0x66:
        return this.#word("false");
      case 0x6e:
        return this.#word("null");
      default:
        return this.#number();
    }
  }

  #object(depth: number): void {
    if (depth > maxJsonDepth) this.#fail(`is nested deeper than ${maxJsonDepth}`);
    const bytes = this.#bytes;
    const firstKey = this.#keys.length;
    let many: Set<string> | null = null;
    this.#at += 1;
    this.#space();
    if (bytes[this.#at] === 0x7d) {
      this.#at += 1;
      return;
    }
    for (;;) {
      if (bytes[this.#at] !== quote) this.#fail("is not JSON: a key is expected");
      const start = this.#at;
      this.#string();
      many = this.#unique(start, this.#at, firstKey, many);
      this.#space();
      if (bytes[this.#at] !== 0x3a) this.#fail("is not JSON: ':' is expected");
      this.#at += 1;
      this.#space();
      this.#value(depth);
      this.#space();
      const next = bytes[this.#at];
      this.#at += 1;
      if (next === 0x7d) break;
      if (next !== 0x2c) {
        this.#at -= 1;
        this.#fail("is not JSON: ',' or '}' is expected");
      }
      this.#space();
    }
    this.#keys.length = firstKey;
  }

  #array(depth: number): void {
    if (depth > maxJsonDepth) this.#fail(`is nested deeper than ${maxJsonDepth}`);
    const bytes = this.#bytes;
    this.#at += 1;
    this.#space();
    if (bytes[this.#at] === 0x5d) {
      this.#at += 1;
      return;
    }
    for (;;) {
      this.#value(depth);
      this.#space();
      const next = bytes[this.#at];
      this.#at += 1;
      if (next === 0x5d) return;
      if (next !== 0x2c) {
        this.#at -= 1;
        this.#fail("is not JSON: ',' or ']' is expected");
      }
      this.#space();
    }
  }

  #string(): void {
    const bytes = this.#bytes;
    const end = this.#end;
    let at = this.#at + 1;
    for (; at < end; at += 1) {
      const byte = bytes[at]!;
      if (byte === quote) {
        this.#at = at + 1;
        return;
      }
      if (byte === backslash) {
        at += 1;
        const escaped = bytes[at];
        if (escaped === 0x75) {
          for (let digit = 1; digit <= 4; digit += 1) {
            if (!isHex(bytes[at + digit])) {
              this.#at = at;
              this.#fail("is not JSON: \\u takes four hexadecimal digits");
            }
          }
          at += 4;
        } else if (escaped === undefined || !isEscape(escaped)) {
          this.#at = at;
          this.#fail("is not JSON: the escape is unknown");
        }
      } else if (byte < 0x20) {
        this.#at = at;
        this.#fail("is not JSON: a string holds a raw control character");
      }
    }
    this.#at = at;
    this.#fail("is not JSON: a string does not end");
  }

  #number(): void {
    const bytes = this.#bytes;
    let at = this.#at;
    if (bytes[at] === 0x2d) at += 1;
    if (bytes[at] === 0x30) at += 1;
    else at = this.#digits(at);
    if (bytes[at] === 0x2e) at = this.#digits(at + 1);
    if (bytes[at] === 0x65 || bytes[at] === 0x45) {
      at += 1;
      if (bytes[at] === 0x2b || bytes[at] === 0x2d) at += 1;
      at = this.#digits(at);
    }
    this.#at = at;
  }

  /** At least one digit from `at` on; answers where they end. */
  #digits(at: number): number {
    const bytes = this.#bytes;
    const start = at;
    while (isDigit(bytes[at])) at += 1;
    if (at === start) {
      this.#at = at;
      this.#fail(at >= this.#end ? "is not JSON: it ends early" : "is not JSON: a value is expected");
    }
    return at;
  }

  #word(word: string): void {
    for (let index = 0; index < word.length; index += 1) {
      if (this.#bytes[this.#at + index] !== word.charCodeAt(index)) this.#fail("is not JSON: a value is expected");
    }
    this.#at += word.length;
  }

  /** Notes the key that lies from `start` to `end`, quotes included, and fails when its object has it already. */
  #unique(start: number, end: number, firstKey: number, many: Set<string> | null): Set<string> | null {
    const keys = this.#keys;
    const isPlain = this.#isPlain(start, end);
    if (many === null) {
      for (let index = firstKey; index < keys.length; index += 2) {
        if (this.#isSame(keys[index]!, keys[index + 1]!, start, end, isPlain)) this.#repeated(start, end);
      }
      keys.push(start, end);
      if ((keys.length - firstKey) / 2 <= pairwiseKeys) return null;
      many = new Set();
      for (let index = firstKey; index < keys.length; index += 2) many.add(this.#name(keys[index]!, keys[index + 1]!));
      return many;
    }
    const before = many.size;
    many.add(this.#name(start, end, isPlain));
    if (many.size === before) this.#repeated(start, end);
    return many;
  }

  /** One text for each key, whatever its spelling: its UTF-8, a character for each byte, which costs least for plain keys. */
  #name(start: number, end: number, isPlain = this.#isPlain(start, end)): string {
    if (isPlain) return this.#bytes.toString("latin1", start + 1, end - 1);
    const text = this.#text(start, end);
    // A lone surrogate has no UTF-8; it is above every byte, so such a text is like no name made of bytes.
    return text.isWellFormed() ? Buffer.from(text).toString("latin1") : text;
  }

  #isSame(otherStart: number, otherEnd: number, start: number, end: number, isPlain: boolean): boolean {
    if (!isPlain || !this.#isPlain(otherStart, otherEnd)) return this.#text(otherStart, otherEnd) === this.#text(start, end);
    if (otherEnd - otherStart !== end - start) return false;
    const bytes = this.#bytes;
    for (let index = 1; index < end - start; index += 1) {
      if (bytes[otherStart + index] !== bytes[start + index]) return false;
    }
    return true;
  }

  /** True when the string spells its characters without escapes, so that equal bytes mean equal text. */
  #isPlain(start: number, end: number): boolean {
    for (let at = start + 1; at < end; at += 1) if (this.#bytes[at] === backslash) return false;
    return true;
  }

  #text(start: number, end: number): string {
    return JSON.parse(this.#bytes.toString("utf8", start, end)) as string;
  }

  #repeated(start: number, end: number): never {
    this.#at = start;
    this.#fail(`repeats the key ${JSON.stringify(this.#text(start, end).slice(0, 64))} in one object`);
  }
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

function isHex(byte: number | undefined): boolean {
  return isDigit(byte) || (byte !== undefined && ((byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66)));
}

function isEscape(byte: number): boolean {
  // " \ / b f n r t
  return (
    byte === quote ||
    byte === backslash ||
    byte === 0x2f ||
    byte === 0x62 ||
    byte === 0x66 ||
    byte === 0x6e ||
    byte === 0x72 ||
    byte === 0x74
  );
}
