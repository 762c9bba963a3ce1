/** Who may append which type, and under which keys: what is decided from the type and the writer alone. */
import { eventCatalog, platformPrefix } from "iterate/events";
import { codedError } from "iterate/lib";
import type { Writer } from "../caller/contract.js";
import { appendLimits } from "./limits.js";
import { textProblem } from "./storable-text.js";

export interface TypeRule {
  readonly writer: "platform" | "anyone";
  readonly isControl: boolean;
  readonly formatVersion: number;
}

/** Types of the tests of projects and of the platform itself; no product code names one. */
const testPrefix = `${platformPrefix}test/`;

const opaque: TypeRule = { writer: "anyone", isControl: false, formatVersion: 1 };

/** Types seen lately; a client that invents types without end empties it, which costs time alone. */
const maxRemembered = 10_000;
const remembered = new Map<string, TypeRule>();

/** What holds for a type. Throws INVALID_INPUT when it is malformed or the platform has no such type. */
export function typeRule(type: string): TypeRule {
  const known = remembered.get(type);
  if (known !== undefined) return known;
  const problem = type.trim() === "" ? "is blank" : textProblem(type, appendLimits.typeBytes);
  if (problem !== null)
    throw codedError("INVALID_INPUT", `event type ${JSON.stringify(type.slice(0, 64))} ${problem}`, { field: "type" });
  const rule = declaredRule(type);
  if (remembered.size >= maxRemembered) remembered.clear();
  remembered.set(type, rule);
  return rule;
}

function declaredRule(type: string): TypeRule {
  const declared = eventCatalog.get(type);
  if (declared !== undefined)
    return { writer: declared.writer, isControl: declared.control, formatVersion: declared.formatVersion };
  if (type.startsWith(platformPrefix) && !type.startsWith(testPrefix)) {
    throw codedError(
      "INVALID_INPUT",
      `${JSON.stringify(type)} is no event type of the platform; names under ${platformPrefix} are its own`,
      { field: "type" },
    );
  }
  return opaque;
}

/** Throws FORBIDDEN when this writer may not append events of this type. */
export function checkWriter(type: string, rule: TypeRule, writer: Writer): void {
  if (rule.writer === "platform" && !writer.isPlatform)
    throw codedError("FORBIDDEN", `only the platform appends ${type}`, { type });
}

const reservedKey = /^(?:itx|project|repo|workspace|secret)[/@:]/;

/** Throws INVALID_INPUT for a key that cannot be stored, FORBIDDEN for one that a person may not use. */
export function checkKey(key: string, writer: Writer): void {
  const problem = textProblem(key, appendLimits.keyBytes);
  if (problem !== null)
    throw codedError("INVALID_INPUT", `idempotency key ${JSON.stringify(key.slice(0, 64))} ${problem}`, {
      field: "idempotency_key",
    });
  if (writer.kind === "person" && reservedKey.test(key)) {
    throw codedError(
      "FORBIDDEN",
      `idempotency keys that begin with ${JSON.stringify(reservedKey.exec(key)![0])} are the platform's own`,
      { field: "idempotency_key" },
    );
  }
}
