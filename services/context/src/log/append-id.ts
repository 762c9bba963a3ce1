/** Append ids as they are stored: 16 bytes of a UUID. */
import { codedError } from "iterate/lib";

const form = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/;

/** The canonical (lower-case) text of an append id. Throws INVALID_INPUT unless `text` is a UUID. */
export function checkedAppendId(text: string): string {
  if (!form.test(text)) throw codedError("INVALID_INPUT", `append_id ${JSON.stringify(text.slice(0, 64))} is not a UUID`);
  return text.toLowerCase();
}

/** The millisecond a UUIDv7 was made at; 0 for another version, which says nothing about its age. */
export function madeAtMs(appendId: string): number {
  return appendId[14] === "7" ? Number.parseInt(appendId.slice(0, 8) + appendId.slice(9, 13), 16) : 0;
}

export function appendIdBytes(appendId: string): Buffer {
  return Buffer.from(appendId.replaceAll("-", ""), "hex");
}
