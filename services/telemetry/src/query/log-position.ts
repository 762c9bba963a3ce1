/** Where a page of log records ends, and how it travels: opaque to clients, ordered like the records. */
import { codedError } from "iterate/lib";

export interface LogPosition {
  readonly atUs: bigint;
  readonly export: bigint;
  readonly ordinal: number;
}

const minInt64 = -(2n ** 63n);
const version = 1;
const tokenBytes = 21;

/** Before every record of that microsecond. */
export function positionBefore(atUs: bigint): LogPosition {
  return { atUs, export: minInt64, ordinal: -1 };
}

export function encodePosition(position: LogPosition): string {
  const bytes = Buffer.alloc(tokenBytes);
  bytes.writeUInt8(version, 0);
  bytes.writeBigInt64BE(position.atUs, 1);
  bytes.writeBigInt64BE(position.export, 9);
  bytes.writeInt32BE(position.ordinal, 17);
  return bytes.toString("base64url");
}

/** Throws INVALID_INPUT for a text that `encodePosition` did not make. */
export function decodePosition(token: string): LogPosition {
  const bytes = Buffer.from(token, "base64url");
  if (bytes.length !== tokenBytes || bytes.readUInt8(0) !== version || bytes.toString("base64url") !== token) {
    throw codedError("INVALID_INPUT", "page_token is not one of an earlier answer", { field: "page_token" });
  }
  return { atUs: bytes.readBigInt64BE(1), export: bytes.readBigInt64BE(9), ordinal: bytes.readInt32BE(17) };
}
