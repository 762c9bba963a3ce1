/**
 * One spelling for equal JSON values, so that two bodies can be compared by digest: object keys in the order of their UTF-16 code
 * units, strings with the fewest escapes, numbers as ECMAScript prints them, integers beyond 2^53 by their own digits (two ids of a
 * 64-bit system must not become equal), no white space. Expects text that `jsonProblem` found nothing wrong with.
 */
export function canonicalJson(text: string): string {
  return new Canonical(text).document();
}

class Canonical {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): string {
    this.#space();
    return this.#value();
  }

  #space(): void {
    const text = this.#text;
    for (;;) {
      const unit = text.charCodeAt(this.#at);
      if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) return;
      this.#at += 1;
    }
  }

  #value(): string {
    switch (this.#text.charCodeAt(this.#at)) {
      case 0x22:
        return this.#string();
      case 0x7b:
        return this.#object();
      case 0x5b:
        return this.#array();
      case 0x74:
      case 0x6e:
        return this.#take(4);
      case 0x66:
        return this.#take(5);
      default:
        return this.#number();
    }
  }

  #take(length: number): string {
    this.#at += length;
    return this.#text.slice(this.#at - length, this.#at);
  }

  #string(): string {
    const text = this.#text;
    const start = this.#at;
    let hasEscape = false;
    let at = start + 1;
    for (;;) {
      const unit = text.charCodeAt(at);
      if (unit === 0x22) break;
      if (unit === 0x5c) {
        hasEscape = true;
        at += 1;
      }
      at += 1;
    }
    this.#at = at + 1;
    const literal = text.slice(start, this.#at);
    return hasEscape ? JSON.stringify(JSON.parse(literal)) : literal;
  }

  #number(): string {
    const text = this.#text;
    const start = this.#at;
    let isInteger = true;
    for (;;) {
      const unit = text.charCodeAt(this.#at);
      if (unit === 0x2e || unit === 0x65 || unit === 0x45) isInteger = false;
      else if (!(unit >= 0x30 && unit <= 0x39) && unit !== 0x2d && unit !== 0x2b) break;
      this.#at += 1;
    }
    const literal = text.slice(start, this.#at);
    const value = Number(literal);
    // String(-0) is "0": the two zeros are one number.
    return isInteger && !Number.isSafeInteger(value) ? literal : String(value);
  }

  #object(): string {
    const members: { key: string; text: string }[] = [];
    let isSorted = true;
    this.#at += 1;
    this.#space();
    while (this.#text.charCodeAt(this.#at) !== 0x7d) {
      const literal = this.#string();
      this.#space();
      this.#at += 1;
      this.#space();
      const key = literal.includes("\\") ? (JSON.parse(literal) as string) : literal.slice(1, -1);
      if (isSorted && members.length > 0 && members[members.length - 1]!.key > key) isSorted = false;
      members.push({ key, text: `${literal}:${this.#value()}` });
      this.#space();
      if (this.#text.charCodeAt(this.#at) === 0x2c) {
        this.#at += 1;
        this.#space();
      }
    }
    this.#at += 1;
    if (!isSorted) members.sort((one, other) => (one.key < other.key ? -1 : 1));
    return `{${members.map(({ text }) => text).join(",")}}`;
  }

  #array(): string {
    const items: string[] = [];
    this.#at += 1;
    this.#space();
    while (this.#text.charCodeAt(this.#at) !== 0x5d) {
      items.push(this.#value());
      this.#space();
      if (this.#text.charCodeAt(this.#at) === 0x2c) {
        this.#at += 1;
        this.#space();
      }
    }
    this.#at += 1;
    return `[${items.join(",")}]`;
  }
}
