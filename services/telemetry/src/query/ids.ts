/** Trace and span ids between the wire, where they are hexadecimal, and the tables, where they are numbers of their size. */
import { codedError } from "iterate/lib";

/** 32 hexadecimal characters, not all zero, in lower case. Throws INVALID_INPUT. */
export function checkTraceId(text: string): string {
  const id = text.toLowerCase();
  if (/^[0-9a-f]{32}$/.test(id) && /[^0]/.test(id)) return id;
  throw codedError(
    "INVALID_INPUT",
    `trace_id ${JSON.stringify(text.slice(0, 64))} is not 32 hexadecimal characters other than zeros`,
    { field: "trace_id" },
  );
}

/** From a UUID as Postgres prints it. */
export function traceIdOf(uuid: string): string {
  return uuid.replaceAll("-", "");
}

/** From the number of a column, as the driver hands it over. */
export function spanIdOf(number: string | bigint): string {
  return BigInt.asUintN(64, BigInt(number)).toString(16).padStart(16, "0");
}
