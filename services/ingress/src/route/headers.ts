/**
 * Which headers of a foreign request reach code, and which of code's answer reach the outside. Pure. Sources: RFC 9110 §7.6.1 (hop-by-hop
 * headers) and §10.1.1 (Expect), RFC 9112 §3.2 (one Host).
 */
import { codedError } from "iterate/lib";

/** Names and values alternating, as Node and undici spell raw headers. */
export type RawHeaders = readonly string[];

const hopByHop = new Set([
  "connection",
  // Answered by this listener before the body is read.
  "expect",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "proxy-connection",
]);

/** Set by the platform alone; from outside they are forgeries. */
const platformPrefixes = ["x-iterate-", "x-itx-"];

/** Claims about the path of a request; nobody in front of this listener is trusted to make them. */
const forwarded = new Set(["forwarded", "via", "x-real-ip"]);

export interface RequestHeaderRules {
  /** Further names to drop, lower-case: credentials the edge consumed. */
  readonly drop: ReadonlySet<string>;
}

/** Throws INVALID_INPUT for a request with several Host headers. */
export function headersForCode(raw: RawHeaders, rules: RequestHeaderRules): string[] {
  const listed = namesListedBy(raw);
  const kept: string[] = [];
  let hosts = 0;
  for (const [name, value] of pairs(raw)) {
    const lower = name.toLowerCase();
    if (lower === "host" && ++hosts > 1)
      throw codedError("INVALID_INPUT", "the request has several Host headers; send one", { header: "Host" });
    if (lower === "host" || hopByHop.has(lower) || listed.has(lower) || rules.drop.has(lower) || forwarded.has(lower)) continue;
    if (lower.startsWith("x-forwarded-") || platformPrefixes.some((prefix) => lower.startsWith(prefix))) continue;
    kept.push(name, value);
  }
  return kept;
}

/** Headers of an answer, by lower-case name. */
export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

export function headersFromCode(answer: AnswerHeaders, rules: RequestHeaderRules): Record<string, string | string[]> {
  const listed = namesListedBy(["connection", [answer["connection"] ?? []].flat().join(",")]);
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(answer)) {
    if (value !== undefined && !hopByHop.has(name) && !listed.has(name) && !rules.drop.has(name)) kept[name] = value;
  }
  return kept;
}

/** Names that `Connection` makes hop-by-hop. */
function namesListedBy(raw: RawHeaders): Set<string> {
  const listed = new Set<string>();
  for (const [name, value] of pairs(raw)) {
    if (name.toLowerCase() !== "connection") continue;
    for (const option of value.split(",")) listed.add(option.trim().toLowerCase());
  }
  return listed;
}

function* pairs(raw: RawHeaders): Generator<[string, string]> {
  for (let at = 0; at + 1 < raw.length; at += 2) yield [raw[at] ?? "", raw[at + 1] ?? ""];
}
