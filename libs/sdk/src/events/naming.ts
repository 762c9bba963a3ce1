/**
 * How types under the platform's prefix are named: two kebab-case segments, the second a fact in the past tense. Only events that are
 * never stored may be nouns, and only three kinds of them.
 */
import { platformPrefix, type EphemeralKind } from "./event-type.js";

const twoSegments = /^[a-z][a-z0-9]*(-[a-z0-9]+)*\/[a-z][a-z0-9]*(-[a-z0-9]+)*$/;

/** Past tenses that do not end in -ed. Words that look like one and are not (`feed`, `need`) end in -eed. */
const irregular: ReadonlySet<string> = new Set(["lent", "sent", "set", "woken"]);
const regular = /^[a-z]+[^e]ed$/;

/** Names that break the rules and stay, with the reason. A name is never added here: it is chosen again. */
export const keptNames: ReadonlyMap<string, string> = new Map([
  ["itx/loop-limit", "stored under this name by every deployment, and what clients wait for"],
]);

/** Types that only tests append; no product code names one. */
export const testTypePrefix = `${platformPrefix}test/`;

/** The type without the platform's prefix. */
export function nameOf(type: string): string {
  return type.slice(platformPrefix.length);
}

/** True for a type under the platform's prefix; every other one belongs to who appends it, and is opaque. */
export function isPlatformType(type: string): boolean {
  return type.startsWith(platformPrefix);
}

/**
 * What is wrong with the name of a type under the platform's prefix, in words that complete "the type …", or null.
 *
 * @param ephemeral how it was declared; absent when nobody has said whether it is stored.
 */
export function typeNameProblem(type: string, ephemeral?: EphemeralKind | null): string | null {
  const name = nameOf(type);
  if (!twoSegments.test(name)) return `must read ${platformPrefix}<namespace>/<event>, both in lower-case kebab-case`;
  if (keptNames.has(name)) return null;
  const verb = name
    .slice(name.lastIndexOf("/") + 1)
    .split("-")
    .at(-1)!;
  if (verb === "frame" && name.endsWith("-frame")) {
    return ephemeral === undefined || ephemeral === "frame"
      ? null
      : `is named a frame; only a piece of a live stream, never stored, is one`;
  }
  if (ephemeral === "frame") return "is a piece of a live stream and must be named <stream>-frame";
  if (ephemeral === "heartbeat" || ephemeral === "diagnostic") return null;
  if (regular.test(verb) || irregular.has(verb)) return null;
  return `must end in a verb in the past tense; a stored event is a fact, never a noun or a command, and ${JSON.stringify(verb)} is none`;
}

/** The past tense of a regular verb: create, created; deny, denied. */
export function pastTense(verb: string): string {
  if (verb.endsWith("e")) return `${verb}d`;
  return /[^aeiou]y$/.test(verb) ? `${verb.slice(0, -1)}ied` : `${verb}ed`;
}
