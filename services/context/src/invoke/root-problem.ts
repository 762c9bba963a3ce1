/** What a root must have to be registered: a name of the vocabulary, and all the words that whoever calls it needs. */
import type { Root } from "@iterate-platform/proto/iterate/capability/v1/capability";
import { invocationLimits } from "@iterate-platform/service/capability";
import { vocabularyOfRoots } from "../rules/roots.js";

/** What keeps a root from being taken; `null` when nothing does. */
export function rootProblem({ name, description, instructions, isContextRoot, methods }: Root): string | null {
  if (!vocabularyOfRoots.has(name)) return "is not in the vocabulary of roots";
  if (isContextRoot !== vocabularyOfRoots.isContextRoot(name))
    return `is ${vocabularyOfRoots.isContextRoot(name) ? "a root of every context" : "a root of projects"} by the vocabulary of roots`;
  if (description === "" || instructions === "") return "has no description or no instructions";
  if (instructions.length > invocationLimits.instructionsChars)
    return `has instructions of ${instructions.length} characters; at most ${invocationLimits.instructionsChars} are told`;
  if (methods.length === 0) return "has no method";
  const bare = methods.find(({ signature, description, example }) => signature === "" || description === "" || example === "");
  return bare === undefined ? null : `has no signature, description or example of ${bare.path}`;
}
