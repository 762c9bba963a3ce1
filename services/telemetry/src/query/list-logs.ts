/**
 * Pages of one owner's log records, oldest first. Records are listed once they are old enough that none older is still on its way, so
 * that whoever follows by page tokens passes none over; what arrives later than that is listed by a new read, not to a follower.
 */
import type { ListLogsRequest, ListLogsResponse } from "@iterate-platform/proto/iterate/telemetry/v1/query";
import type { Queryable } from "@iterate-platform/service/postgres";
import { assertContextPath, codedError } from "iterate/lib";
import { severities } from "../store/log-batch.js";
import { checkOwner } from "./check-owner.js";
import { spanIdOf, traceIdOf } from "./ids.js";
import { decodePosition, encodePosition, positionBefore, type LogPosition } from "./log-position.js";
import { scanLogs, type StoredLog } from "./logs.sql.js";

export const maxPageSize = 1_000;
export const defaultPageSize = 200;
/** A page ends before it is larger. */
const maxPageBytes = 8_388_608;
/** Records looked at for one page when only those of some contexts are wanted. */
export const maxScanned = 10_000;
/** An exporter sends each second, and what arrived is stored within another. */
export const settleMs = 3_000;

/** Throws INVALID_INPUT. May be retried. */
export async function listLogs(db: Queryable, request: ListLogsRequest, nowMs: number): Promise<ListLogsResponse> {
  const owner = checkOwner(request.owner, "refused");
  if (request.path !== "") assertContextPath(request.path);
  const pageSize = checkPageSize(request.pageSize);
  const after = request.pageToken === "" ? positionBefore(checkSince(request.sinceUs)) : decodePosition(request.pageToken);
  const mayScan = request.path === "" ? pageSize : maxScanned;
  const { records, through, scanned } = await scanLogs(
    db,
    owner,
    after,
    BigInt(nowMs - settleMs) * 1_000n,
    request.path,
    pageSize,
    mayScan,
  );
  const fitting = withinBytes(records);
  const last = fitting.at(-1);
  const isCut = last !== undefined && (fitting.length < records.length || records.length === pageSize);
  return {
    records: fitting.map(toRecord),
    nextPageToken: encodePosition(isCut ? positionOf(last) : (through ?? after)),
    atEnd: !isCut && scanned < mayScan,
  };
}

function checkPageSize(size: number): number {
  if (size === 0) return defaultPageSize;
  if (size >= 1 && size <= maxPageSize) return size;
  throw codedError("INVALID_INPUT", `page_size ${size} is not from 1 to ${maxPageSize}, or 0 for ${defaultPageSize}`, {
    field: "page_size",
  });
}

function checkSince(sinceUs: bigint): bigint {
  if (sinceUs >= 0n) return sinceUs;
  throw codedError("INVALID_INPUT", `since_us ${sinceUs} is negative`, { field: "since_us" });
}

/** The first record is answered whatever its size. */
function withinBytes(records: readonly StoredLog[]): readonly StoredLog[] {
  let bytes = 0;
  const end = records.findIndex(({ body, attributes }, index) => {
    bytes += Buffer.byteLength(body) + Buffer.byteLength(attributes);
    return bytes > maxPageBytes && index > 0;
  });
  return end === -1 ? records : records.slice(0, end);
}

function positionOf(record: StoredLog): LogPosition {
  return { atUs: BigInt(record.atUs), export: BigInt(record.export), ordinal: record.ordinal };
}

function toRecord(record: StoredLog): ListLogsResponse["records"][number] {
  return {
    atUs: BigInt(record.atUs),
    severity: severities[record.severity] ?? "info",
    body: record.body,
    service: record.service,
    traceId: record.traceId === null ? "" : traceIdOf(record.traceId),
    spanId: record.spanId === null ? "" : spanIdOf(record.spanId),
    attributes: record.attributes,
  };
}
