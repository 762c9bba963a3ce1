/** Sizes as the wire and the database count them. */

const encoder = new TextEncoder();

/** Bytes of `text` in UTF-8. A lone surrogate counts three, as the replacement character it would become. */
export function utf8Length(text: string): number {
  return encoder.encode(text).length;
}

/** True when `text` takes more than `maxBytes` in UTF-8; encodes only when its length leaves the question open. */
export function exceedsUtf8(text: string, maxBytes: number): boolean {
  if (text.length > maxBytes) return true;
  // A UTF-16 code unit takes at most three bytes.
  return text.length * 3 > maxBytes && utf8Length(text) > maxBytes;
}
