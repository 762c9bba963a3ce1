/**
 * The reader of expressions: `itx.kv.get("k", {limit: 3})`. Names are joined by dots; arguments are JSON whose strings may stand in
 * single quotes and whose keys may stand bare. White space may stand between any two words.
 */
import { codedError, type CodedError } from "../lib/coded-error.js";
import { exceedsUtf8 } from "../lib/utf8.js";
import {
  expressionLimits,
  isRefusedKey,
  isStepName,
  shown,
  tooManySteps,
  type Expression,
  type Json,
  type Step,
} from "./expression.js";

/**
 * A call or a match from its text.
 *
 * @throws CodedError INVALID_INPUT{position}, EXPRESSION_TOO_LONG. Neither may be retried.
 */
export function parseExpression(text: string): Expression {
  return new Reader(text, "call").expression();
}

/** The target of a rule from its text, with its holes. Throws as `parseExpression`. */
export function parseTarget(text: string): Expression {
  return new Reader(text, "target").expression();
}

const spaces = /[ \t\r\n]*/y;
const name = /[A-Za-z_$][A-Za-z0-9_$-]*/y;
const bareKey = /[A-Za-z_$][A-Za-z0-9_$]*/y;
const number = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const plainCharacters = { '"': /[^"\\\u0000-\u001f]*/y, "'": /[^'\\\u0000-\u001f]*/y };
const words: Readonly<Record<string, Json>> = { null: null, true: true, false: false };
const escapes: Readonly<Record<string, string>> = {
  '"': '"',
  "'": "'",
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

class Reader {
  readonly #text: string;
  readonly #takesHoles: boolean;
  #at = 0;
  /** Where the first hole of the step being read stands that only a last step may have. */
  #holeAt: number | null = null;

  constructor(text: string, kind: "call" | "target") {
    if (exceedsUtf8(text, expressionLimits.bytes))
      throw codedError("EXPRESSION_TOO_LONG", `expression: at most ${expressionLimits.bytes} bytes of UTF-8 (at position 0)`, {
        limit: expressionLimits.bytes,
        position: 0,
      });
    this.#text = text;
    this.#takesHoles = kind === "target";
    if (!text.isWellFormed()) throw this.#invalid("a lone surrogate", surrogatePosition(text));
  }

  expression(): Expression {
    this.#skip();
    if (this.#take(name) !== "itx") throw this.#invalid("an expression starts with itx", 0);
    const steps: Step[] = [];
    for (;;) {
      this.#skip();
      if (this.#at === this.#text.length) return ["itx", ...steps];
      if (this.#holeAt !== null) throw this.#invalid("arguments are filled in the last step alone", this.#holeAt);
      if (steps.length === expressionLimits.steps) throw tooManySteps(steps.length + 1, this.#at);
      steps.push(this.#step());
    }
  }

  #step(): Step {
    const start = this.#at;
    if (this.#next() === "(") return ["", ...this.#args()];
    if (!this.#eat(".")) throw this.#unexpected("a dot, a call or the end");
    this.#skip();
    const word = this.#take(name);
    if (word === "") throw this.#unexpected("a name");
    if (!isStepName(word)) throw this.#invalid(`${shown(word)} is no name`, start);
    this.#skip();
    return this.#next() === "(" ? [word, ...this.#args()] : word;
  }

  #args(): Json[] {
    const args: Json[] = [];
    this.#at += 1;
    this.#skip();
    if (this.#eat(")")) return args;
    do args.push(this.#value(0));
    while (this.#eat(","));
    if (!this.#eat(")")) throw this.#unexpected('"," or ")"');
    return args;
  }

  /** One value and the white space around it. */
  #value(depth: number): Json {
    this.#skip();
    const value = this.#bareValue(depth);
    this.#skip();
    return value;
  }

  #bareValue(depth: number): Json {
    const start = this.#at;
    switch (this.#next()) {
      case "{":
        return this.#object(depth + 1);
      case "[":
        return this.#array(depth + 1);
      case '"':
      case "'":
        return this.#string();
      case "@":
        if (this.#takesHoles) return this.#hole(depth);
        throw this.#invalid("a hole stands in the target of a rule alone", start);
    }
    const digits = this.#take(number);
    if (digits !== "") return this.#number(digits, start);
    const word = this.#take(bareKey);
    if (Object.hasOwn(words, word)) return words[word]!;
    this.#at = start;
    throw this.#unexpected("a value");
  }

  #number(digits: string, start: number): number {
    const value = Number(digits);
    if (!Number.isFinite(value)) throw this.#invalid("a number is too large", start);
    // Its text is 0: what is printed and read again must be what it was.
    return value === 0 ? 0 : value;
  }

  #hole(depth: number): Json {
    const start = this.#at;
    this.#at += 1;
    const word = this.#take(bareKey);
    if (word === "caller") return { "@": "caller" };
    if (word !== "") throw this.#invalid(`@${word.slice(0, 64)} is no hole; there are @, {...@} and @caller`, start);
    this.#holeAt ??= start;
    return { "@": depth === 0 ? "args" : "arg" };
  }

  #array(depth: number): Json {
    this.#enter(depth);
    const items: Json[] = [];
    if (this.#eat("]")) return items;
    do items.push(this.#value(depth));
    while (this.#eat(","));
    if (!this.#eat("]")) throw this.#unexpected('"," or "]"');
    return items;
  }

  #object(depth: number): Json {
    this.#enter(depth);
    const members: Record<string, Json> = {};
    let isMerged = false;
    if (this.#eat("}")) return members;
    do {
      this.#skip();
      if (this.#takesHoles && this.#next() === ".") {
        if (isMerged) throw this.#invalid("an object merges its argument once", this.#at);
        this.#spread();
        isMerged = true;
      } else this.#member(members, depth);
    } while (this.#eat(","));
    if (!this.#eat("}")) throw this.#unexpected('"," or "}"');
    if (isMerged) return { "@": "merge", with: members };
    return this.#takesHoles && Object.hasOwn(members, "@") ? { "@": "literal", value: members } : members;
  }

  #spread(): void {
    const start = this.#at;
    if (!this.#text.startsWith("...@", start)) throw this.#unexpected("...@");
    this.#at += 4;
    if (this.#take(bareKey) !== "") throw this.#invalid("only ...@ is merged", start);
    this.#holeAt ??= start;
    this.#skip();
  }

  #member(members: Record<string, Json>, depth: number): void {
    const start = this.#at;
    const isQuoted = this.#next() === '"' || this.#next() === "'";
    const key = isQuoted ? this.#string() : this.#take(bareKey);
    if (key === "" && !isQuoted) throw this.#unexpected("a key");
    if (isRefusedKey(key)) throw this.#invalid(`the key ${shown(key)} is refused`, start);
    if (Object.hasOwn(members, key)) throw this.#invalid(`the key ${shown(key)} is there twice`, start);
    this.#skip();
    if (!this.#eat(":")) throw this.#unexpected('":"');
    members[key] = this.#value(depth);
  }

  #string(): string {
    const start = this.#at;
    const quote = this.#next() as '"' | "'";
    this.#at += 1;
    let value = "";
    for (;;) {
      value += this.#take(plainCharacters[quote]);
      if (this.#eat(quote)) return value;
      if (this.#at === this.#text.length) throw this.#invalid("a string does not end", start);
      if (!this.#eat("\\")) throw this.#invalid("a control character in a string is written as an escape", this.#at);
      value += this.#escape();
    }
  }

  #escape(): string {
    const start = this.#at - 1;
    const letter = this.#next();
    this.#at += 1;
    if (Object.hasOwn(escapes, letter)) return escapes[letter]!;
    const digits = this.#text.slice(this.#at, this.#at + 4);
    if (letter !== "u" || !/^[0-9a-fA-F]{4}$/.test(digits)) throw this.#invalid("an escape that JSON does not have", start);
    this.#at += 4;
    return String.fromCharCode(Number.parseInt(digits, 16));
  }

  /** Past an opening bracket. */
  #enter(depth: number): void {
    if (depth > expressionLimits.depth) throw this.#invalid(`values nest at most ${expressionLimits.depth} deep`, this.#at);
    this.#at += 1;
    this.#skip();
  }

  #next(): string {
    return this.#text[this.#at] ?? "";
  }

  #eat(character: string): boolean {
    if (this.#next() !== character) return false;
    this.#at += 1;
    return true;
  }

  #skip(): void {
    this.#take(spaces);
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [found] = pattern.exec(this.#text) ?? [""];
    this.#at += found.length;
    return found;
  }

  #unexpected(wanted: string): CodedError {
    const found = this.#at === this.#text.length ? "the end" : shown(String.fromCodePoint(this.#text.codePointAt(this.#at)!));
    return this.#invalid(`${wanted} was expected, not ${found}`, this.#at);
  }

  #invalid(problem: string, position: number): CodedError {
    return codedError("INVALID_INPUT", `expression: ${problem} (at position ${position})`, { position });
  }
}

function surrogatePosition(text: string): number {
  for (let at = 0; at < text.length; at += 1) {
    const point = text.codePointAt(at)!;
    if (point >= 0xd800 && point <= 0xdfff) return at;
    if (point > 0xffff) at += 1;
  }
  return text.length;
}
