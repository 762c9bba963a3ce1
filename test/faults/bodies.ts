/** Bodies that show whether they come back byte for byte: odd spellings of the same JSON, each with its owner and its own mark. */
import { itx } from "iterate/events";
import type { SentEvent } from "./history.js";
import { pick, type Random } from "./random.js";

export const loadTypes = ["test/a", "test/b", "test/c"] as const;

const spellings = [
  (n: number) => `{"n":${n}}`,
  (n: number) => `{ "n" : ${n}.0e0,\n\t"text" : "\\u001B[0m \\ud83d\\ude00 😀 \\u0000" }`,
  (n: number) => `[ ${n}, 12345678901234567890, 1E400, -0.0, null ]`,
  (n: number) => `"${"é".repeat(n % 700)}"`,
];

/** An event nobody else sends: its metadata names project, load, append and place. */
export function freshEvent(random: Random, owner: string, mark: string): SentEvent {
  const n = Math.floor(random() * 1_000);
  return { type: pick(random, loadTypes), payload: pick(random, spellings)(n), metadata: metadataOf(owner, mark), key: "" };
}

/** The one event of a key: whoever sends it sends the same. */
export function keyedEvent(owner: string, key: string): SentEvent {
  return { type: loadTypes[0], payload: `{"key":"${key}"}`, metadata: metadataOf(owner, `key ${key}`), key };
}

/** Sets or removes one of a few subscriptions, so that there is a state to fold. */
export function controlEvent(random: Random, owner: string, mark: string): SentEvent {
  const name = `sub-${Math.floor(random() * 4)}`;
  const target = random() < 0.25 ? null : ["itx", "builtins", "processors", ["get", "none"]];
  return {
    type: itx.subscriptionConfigured.type,
    payload: JSON.stringify({ name, target, ...(target === null ? {} : { consumes: ["test/none"] }) }),
    metadata: metadataOf(owner, mark),
    key: "",
  };
}

function metadataOf(owner: string, mark: string): string {
  return `{"owner":"${owner}","mark":"${mark}"}`;
}
