/** How much of what senders say is kept. What is longer is cut, and says so; nothing is refused for its length below a whole request. */

/** One export, as sent and as unpacked, bytes. */
export const maxExportBytes = 4_194_304;

/** Texts in characters. */
export const maxNameLength = 512;
export const maxServiceLength = 128;
export const maxStatusLength = 1_024;
export const maxBodyLength = 16_384;
/** A context path is at most 1,024 bytes. */
export const maxPathLength = 1_024;
/** An id of a project; a longer owner is nobody's. */
export const maxOwnerLength = 64;

/** Attributes of one span or record: how many, one key, one text value, all as JSON. */
export const maxAttributes = 128;
export const maxKeyLength = 256;
export const maxValueLength = 4_096;
export const maxAttributesLength = 16_384;
/** Deepest nesting of an attribute's value. */
export const maxDepth = 6;

/** Links of one span. */
export const maxLinks = 128;

/** What begins earlier or later than this, from now, is refused: its day's partition may be gone, or not made yet. */
export const maxAgeMs = 24 * 3_600_000;
export const maxAheadMs = 3_600_000;

/** `text` as a column can hold it, and no longer than `maxLength`; a cut text ends with an ellipsis. */
export function bounded(text: string, maxLength: number): string {
  const clean = text.includes("\0") ? text.replaceAll("\0", "\ufffd") : text;
  return clean.length <= maxLength ? clean : `${clean.slice(0, maxLength - 1)}…`.toWellFormed();
}
