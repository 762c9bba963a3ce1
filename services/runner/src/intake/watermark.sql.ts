/** The statements on watermarks. */
import type { Statement } from "@iterate-platform/service/postgres";

/** Where the feeds of these partitions are worked off to. */
export function watermarks(partitions: readonly number[]): Statement {
  return {
    name: "watermarks",
    text: `select partition, position from watermark where partition = any($1::smallint[])`,
    values: [partitions],
  };
}

/** Moves watermarks, each only under an epoch that is not below what wrote it last. */
export function storeWatermarks(
  marks: readonly { readonly partition: number; readonly position: string; readonly epoch: bigint }[],
): Statement {
  return {
    name: "store_watermarks",
    text: `
      update watermark set position = mark.position, epoch = mark.epoch
      from unnest($1::smallint[], $2::text[], $3::bigint[]) as mark (partition, position, epoch)
      where watermark.partition = mark.partition and watermark.epoch <= mark.epoch`,
    values: [
      marks.map(({ partition }) => partition),
      marks.map(({ position }) => position),
      marks.map(({ epoch }) => String(epoch)),
    ],
  };
}
