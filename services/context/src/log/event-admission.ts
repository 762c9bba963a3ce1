/** Who may append which type, in which format and under which keys: what is decided from the type and the writer alone. */
import { isPlatformType, itx, platformPrefix, testTypePrefix, type EventTypeDeclaration } from "iterate/events";
import { codedError } from "iterate/lib";
import type { Writer } from "../caller/contract.js";
import type { Vocabulary } from "../core/vocabulary.js";
import type { ContextAddress } from "./contract.js";
import { appendLimits } from "./limits.js";
import { textProblem } from "./storable-text.js";

/** What holds for a type. */
export interface TypeRule {
  readonly writer: "platform" | "anyone";
  readonly isControl: boolean;
  /** Newest format it may be written in, and the one it is written in when the writer names none. */
  readonly formatVersion: number;
  /** `null` for types that mean nothing to the platform. */
  readonly declaration: EventTypeDeclaration | null;
}

const opaque: TypeRule = { writer: "anyone", isControl: false, formatVersion: 1, declaration: null };

/** Types seen lately; a client that invents types without end empties it, which costs time alone. */
const maxRemembered = 10_000;

export class EventAdmission {
  readonly #vocabulary: Vocabulary;
  readonly #remembered = new Map<string, TypeRule>();

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
  }

  /** What holds for a type. Throws INVALID_INPUT when it is malformed or the platform has no such type. */
  ruleOf(type: string): TypeRule {
    const known = this.#remembered.get(type);
    if (known !== undefined) return known;
    const problem = type.trim() === "" ? "is blank" : textProblem(type, appendLimits.typeBytes);
    if (problem !== null)
      throw codedError("INVALID_INPUT", `event type ${JSON.stringify(type.slice(0, 64))} ${problem}`, { field: "type" });
    const rule = this.#declaredRule(type);
    if (this.#remembered.size >= maxRemembered) this.#remembered.clear();
    this.#remembered.set(type, rule);
    return rule;
  }

  #declaredRule(type: string): TypeRule {
    const declaration = this.#vocabulary.declarationOf(type);
    if (declaration !== undefined) {
      const { writer, control } = declaration;
      return { writer, isControl: control, formatVersion: this.#vocabulary.writtenFormat(declaration), declaration };
    }
    if (!isPlatformType(type) || type.startsWith(testTypePrefix)) return opaque;
    const newName = this.#vocabulary.newNameOf(type);
    throw codedError(
      "INVALID_INPUT",
      newName === undefined
        ? `${JSON.stringify(type)} is no event type of the platform; names under ${platformPrefix} are its own`
        : `${JSON.stringify(type)} is called ${JSON.stringify(newName)} now`,
      { field: "type" },
    );
  }
}

/** Throws FORBIDDEN when this writer may not append events of this type. */
export function checkWriter(type: string, rule: TypeRule, writer: Writer): void {
  if (rule.writer === "platform" && !writer.isPlatform)
    throw codedError("FORBIDDEN", `only the platform appends ${type}`, { type });
}

const typesOfRoots: ReadonlySet<string> = new Set(
  [itx.appendPolicyConfigured, itx.fetchRouteConfigured, itx.ingressConfigured].map(({ type }) => type),
);

/**
 * Throws INVALID_INPUT for a type that means something in one place alone, elsewhere, and for one that is sent to be stored and never
 * is, or the other way.
 */
export function checkUse(
  type: string,
  { declaration }: TypeRule,
  { address, isEphemeral }: { readonly address: ContextAddress; readonly isEphemeral: boolean },
): void {
  if (declaration === null) return;
  if (typesOfRoots.has(type) && (address.path !== "/" || address.owner === "global"))
    throw codedError("INVALID_INPUT", `${type} is appended to the root of a project, and holds for all its contexts`, { type });
  if (isEphemeral === (declaration.ephemeral !== null)) return;
  throw codedError(
    "INVALID_INPUT",
    isEphemeral ? `${type} is a stored event; append it as one` : `${type} is never stored; append it as an ephemeral event`,
    { type, field: "ephemeral" },
  );
}

/**
 * The format of an event whose writer names `asked`; 0 names none.
 *
 * @throws CodedError INVALID_INPUT for a format that the type has not, or that this deployment does not write yet.
 */
export function checkedFormat(type: string, rule: TypeRule, asked: number): number {
  if (asked === 0) return rule.formatVersion;
  if (Number.isInteger(asked) && asked > 0 && asked <= rule.formatVersion) return asked;
  throw codedError(
    "INVALID_INPUT",
    `${type}: format ${asked} is not written here; this deployment writes up to ${rule.formatVersion}`,
    {
      field: "format_version",
      formatVersion: asked,
      written: rule.formatVersion,
    },
  );
}

/** Beginnings of the keys that the platform makes in the contexts of a project. */
const platformKey = /^(?:itx|project|repo|workspace|secret)[/@:]/;
/** Those it makes in the contexts of the deployment itself. */
const globalKey = /^(?:account|organization)\//;
/** What the runner puts under the keys of code: what a processor emits, and an append of a subscription that has a reserved name. */
const runnerKey = /^(?:itx\/emit:|[a-z]+:)/;

/** Throws INVALID_INPUT for a key that cannot be stored, FORBIDDEN for one that is not the writer's to use. */
export function checkKey(key: string, writer: Writer, owner: string): void {
  const problem = textProblem(key, appendLimits.keyBytes);
  if (problem !== null)
    throw codedError("INVALID_INPUT", `idempotency key ${JSON.stringify(key.slice(0, 64))} ${problem}`, {
      field: "idempotency_key",
    });
  if (writer.isPlatform) return;
  const reserved = platformKey.exec(key) ?? (owner === "global" ? globalKey.exec(key) : null);
  if (reserved === null || (writer.kind === "code" && runnerKey.test(key))) return;
  throw codedError("FORBIDDEN", `idempotency keys that begin with ${JSON.stringify(reserved[0])} are the platform's own`, {
    field: "idempotency_key",
  });
}
