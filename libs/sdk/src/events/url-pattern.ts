/**
 * Patterns of addresses: the part of URLPattern that is matched in a time that grows with the text alone. A component holds literal text,
 * `*` for any text, `:name` for one or more characters up to the next separator, and `\` before a character that is meant as it is.
 * Groups, regular expressions and `?`, `+` behind a name are refused.
 */

export const urlComponents = ["protocol", "hostname", "port", "pathname", "search"] as const;
export type UrlComponent = (typeof urlComponents)[number];

/** Characters of one component, and wildcards and names in it. */
export const urlPatternLimits = { chars: 256, wildcards: 8 } as const;

/** A character; any text; one character, or any number of them, that are no separator. */
type Token = { readonly literal: string } | "any" | "one" | "many";

export interface UrlPattern {
  readonly tokens: readonly Token[];
  readonly separator: string;
}

const separators: Record<UrlComponent, string> = { protocol: "", hostname: ".", port: "", pathname: "/", search: "" };

/** A component of a pattern; the problem with it, as the end of a sentence, when it is none. */
export function parseUrlPattern(component: UrlComponent, text: string): UrlPattern | string {
  if (text.length > urlPatternLimits.chars) return `is longer than ${urlPatternLimits.chars} characters`;
  const tokens: Token[] = [];
  let wildcards = 0;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at]!;
    if (char === "*") {
      tokens.push("any");
      wildcards += 1;
    } else if (char === ":" && /[A-Za-z_]/.test(text[at + 1] ?? "")) {
      while (/[A-Za-z0-9_]/.test(text[at + 1] ?? "")) at += 1;
      if (/[?+*(]/.test(text[at + 1] ?? "")) return `holds ${JSON.stringify(text[at + 1])} behind a name, which is not taken here`;
      tokens.push("one", "many");
      wildcards += 1;
    } else if ("(){}?+".includes(char) && component !== "search") {
      return `holds ${JSON.stringify(char)}: groups and regular expressions are not taken here`;
    } else if ("(){}".includes(char)) {
      return `holds ${JSON.stringify(char)}: groups and regular expressions are not taken here`;
    } else if (char === "\\") {
      at += 1;
      if (at === text.length) return "ends in a backslash";
      tokens.push({ literal: text[at]! });
    } else tokens.push({ literal: component === "hostname" || component === "protocol" ? char.toLowerCase() : char });
  }
  if (wildcards > urlPatternLimits.wildcards)
    return `holds ${wildcards} wildcards and names; at most ${urlPatternLimits.wildcards}`;
  return { tokens, separator: separators[component] };
}

/** Whether all of `text` matches. Takes at most as many steps as both are long, multiplied. */
export function matchesUrlPattern({ tokens, separator }: UrlPattern, text: string): boolean {
  let places = new Set<number>();
  reach(places, 0, tokens);
  for (const char of text) {
    if (places.size === 0) return false;
    const next = new Set<number>();
    for (const place of places) {
      const token = tokens[place];
      if (token === undefined) continue;
      if (token === "any" || (token === "many" && char !== separator)) reach(next, place, tokens);
      else if (typeof token === "object" ? token.literal === char : token === "one" && char !== separator)
        reach(next, place + 1, tokens);
    }
    places = next;
  }
  return places.has(tokens.length);
}

/** What matches no text at all is stepped over. */
function reach(places: Set<number>, from: number, tokens: readonly Token[]): void {
  for (let place = from; !places.has(place); place += 1) {
    places.add(place);
    if (tokens[place] !== "any" && tokens[place] !== "many") return;
  }
}
