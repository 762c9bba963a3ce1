/**
 * The rules of the vocabulary, beyond what one name shows: what a type declares must fit its name, an ask needs its answers, and a name
 * belongs to one contract. A pure check: the build, CI and every contract of a processor ask it.
 */
import type { z } from "zod";
import { eventFamilies, platformPrefix, type EventTypeDeclaration } from "./event-type.js";
import { nameOf, pastTense, typeNameProblem } from "./naming.js";
import type { Renames } from "./renamed.js";

/** One broken rule. */
export interface VocabularyProblem {
  readonly type: string;
  /** Completes "the type …". */
  readonly problem: string;
}

/** The contract files of a vocabulary: what each exports, by the namespace it is the file of. */
export type ContractFiles = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/**
 * The catalog that contract files make.
 *
 * @throws Error when two declarations define one type, or a file defines a type of another namespace.
 */
export function collectCatalog(files: ContractFiles): ReadonlyMap<string, EventTypeDeclaration> {
  const catalog = new Map<string, EventTypeDeclaration>();
  for (const [namespace, exports] of Object.entries(files)) {
    for (const declaration of Object.values(exports).filter(isDeclaration)) {
      if (catalog.has(declaration.type)) throw new Error(`vocabulary: two contracts define ${declaration.type}`);
      if (!declaration.type.startsWith(`${platformPrefix}${namespace}/`))
        throw new Error(`vocabulary: the contract of ${JSON.stringify(namespace)} defines ${declaration.type}`);
      catalog.set(declaration.type, declaration);
    }
  }
  return catalog;
}

/** Every rule the catalog breaks; none for a sound one. */
export function vocabularyProblems(catalog: ReadonlyMap<string, EventTypeDeclaration>, renamed: Renames): VocabularyProblem[] {
  const problems: VocabularyProblem[] = [];
  for (const declaration of catalog.values()) {
    const found = [
      typeNameProblem(declaration.type, declaration.ephemeral),
      answerProblem(declaration, (type) => catalog.has(type)),
      payloadProblem(declaration),
      familyProblem(declaration),
      declaration.control && declaration.ephemeral !== null ? "is folded by the core state, so it must be stored" : null,
    ];
    for (const problem of found) if (problem !== null) problems.push({ type: declaration.type, problem });
  }
  for (const [type, { to, migration }] of renamed) {
    if (catalog.has(type)) problems.push({ type, problem: "is renamed and still in the catalog" });
    if (!catalog.has(to)) problems.push({ type, problem: `is renamed to ${to}, which is not in the catalog` });
    if (!/\.sql$/.test(migration)) problems.push({ type, problem: "is renamed without a migration of what is stored" });
  }
  return problems;
}

/**
 * Why an ask has no answer: `<x>-requested` is answered by `<x>-settled`, or by its verb in the past tense, or by a type it names.
 *
 * @param isKnown whether a full type exists.
 */
export function answerProblem(
  { type, answeredBy }: { readonly type: string; readonly answeredBy: readonly string[] },
  isKnown: (type: string) => boolean,
): string | null {
  const unknown = answeredBy.find((answer) => !isKnown(answer));
  if (unknown !== undefined) return `is answered by ${unknown}, which is not in the catalog`;
  if (!type.endsWith("-requested") || answeredBy.length > 0) return null;
  const ask = type.slice(0, -"-requested".length);
  const verb = ask.split(/[/-]/).at(-1)!;
  const done = ask.slice(0, -verb.length) + pastTense(verb);
  if (isKnown(`${ask}-settled`) || isKnown(done)) return null;
  return `asks and nobody answers: it needs ${nameOf(ask)}-settled, ${nameOf(done)}, or the type that answers it`;
}

/** What the payload lacks that the name promises. */
function payloadProblem({ type, payload }: EventTypeDeclaration): string | null {
  const fields = fieldsOf(payload);
  if (type.endsWith("-settled") && !("requestOffset" in fields)) return "settles something and must name it by requestOffset";
  if (type.endsWith("-configured")) {
    const clears = Object.values(fields).some((field) => field.safeParse(null).success);
    // A partial configuration keeps what it leaves out.
    const isPartial = payload.safeParse({}).success;
    if (!clears && !isPartial) return "configures something and needs a form with null that clears it";
  }
  return null;
}

function familyProblem({ type, family }: EventTypeDeclaration): string | null {
  const joined = eventFamilies.find((prefix) => nameOf(type).startsWith(prefix)) ?? null;
  if (joined === family) return null;
  return joined === null
    ? `says it belongs to the family ${family}*, which its name does not`
    : `joins the family ${joined}* by its name; say so if it is meant, else choose another`;
}

function fieldsOf(payload: z.ZodType): Readonly<Record<string, z.ZodType>> {
  return (payload as z.ZodType & { shape?: Record<string, z.ZodType> }).shape ?? {};
}

function isDeclaration(value: unknown): value is EventTypeDeclaration {
  return typeof value === "object" && value !== null && "type" in value && "payload" in value && "formatVersion" in value;
}
