/**
 * Which database holds which partitions. A context's partition is fixed for ever, so moving a range of them to another database is a
 * change of this map and nothing else.
 */
import { partitionCount } from "@iterate-platform/service/ids";

export interface ShardRange {
  readonly first: number;
  readonly last: number;
  readonly url: string;
}

/**
 * Reads `0-127=postgres://…,128-255=postgres://…`: ranges that cover every partition once, in any order.
 * Throws a plain sentence, starting with a verb and never quoting a URL, when it is not that.
 */
export function parseShards(text: string): readonly ShardRange[] {
  const ranges = text.split(/,(?=\s*\d+-\d+=)/).map((part): ShardRange => {
    const match = /^\s*(\d{1,3})-(\d{1,3})=(postgres(?:ql)?:\/\/\S+)\s*$/.exec(part);
    if (match === null || !URL.canParse(match[3]!)) throw new RangeError("holds a part that is not <first>-<last>=postgres://…");
    return { first: Number(match[1]), last: Number(match[2]), url: match[3]! };
  });
  ranges.sort((one, other) => one.first - other.first);
  let next = 0;
  for (const { first, last } of ranges) {
    if (first !== next || last < first) throw new RangeError(`does not cover partition ${next} exactly once`);
    next = last + 1;
  }
  if (next !== partitionCount) throw new RangeError(`ends at partition ${next - 1}, not at ${partitionCount - 1}`);
  return ranges;
}

export class ShardMap<Shard> {
  readonly all: readonly Shard[];
  readonly #byPartition: readonly Shard[];

  /** Opens one shard for each database, however many ranges it holds. */
  constructor(ranges: readonly ShardRange[], open: (url: string) => Shard) {
    const byUrl = new Map<string, Shard>();
    for (const { url } of ranges) if (!byUrl.has(url)) byUrl.set(url, open(url));
    this.all = [...byUrl.values()];
    this.#byPartition = ranges.flatMap(({ first, last, url }) => Array.from({ length: last - first + 1 }, () => byUrl.get(url)!));
  }

  of(partition: number): Shard {
    return this.#byPartition[partition]!;
  }
}
