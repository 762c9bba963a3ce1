/**
 * Exports: contexts one after the other, each through the head it has when its turn comes, in pieces of bounded size. Nothing is held
 * beyond one page of events, however long a log is; a reader that is slow makes the export slow.
 */
import { CodedError, codedError } from "iterate/lib";
import { partitionOf } from "@iterate-platform/service/ids";
import type { ArchiveHeader } from "@iterate-platform/service/archive-header";
import { firstOffsetOf } from "../core/retention.js";
import type { Heads } from "../log/confirm.js";
import type { ContextHead } from "../log/contract.js";
import type { ArchiveStore } from "./contract.js";
import { ArchiveLines } from "./format.js";

/** Bytes of one piece, at which it is sent. */
const pieceBytes = 262_144;
/** One page of events. */
const page = { maxEvents: 1_000, maxBytes: 4_194_304 } as const;
/** Paths read at once. */
const pathsPage = 500;

export interface ExportParts {
  readonly heads: Heads;
  /** Every shard. */
  readonly stores: readonly ArchiveStore[];
  readonly storeOf: (partition: number) => ArchiveStore;
  readonly now: () => Date;
}

export interface ArchivePiece {
  readonly data: Buffer;
  /** Complete contexts, and events, so far. */
  readonly contexts: number;
  readonly events: number;
}

export interface ExportRequest {
  readonly owner: string;
  readonly slug: string;
  /** One context, or `null` for all of the project. */
  readonly path: string | null;
}

/**
 * The archive in pieces.
 *
 * @throws CodedError NOT_FOUND when the one context is not born; UNAVAILABLE when the database is away, or a context was truncated
 *   while it was read (export again); the reason of `signal`.
 */
export async function* exportArchive(
  { heads, stores, storeOf, now }: ExportParts,
  { owner, slug, path }: ExportRequest,
  signal: AbortSignal,
): AsyncGenerator<ArchivePiece> {
  const lines = new ArchiveLines();
  const pieces = new Pieces(lines);
  const header: ArchiveHeader = { of: path === null ? "project" : "context", owner, slug, exportedAt: now().toISOString() };
  pieces.add(lines.header(header));
  for await (const each of path === null ? pathsOf(stores, owner) : [path]) {
    const head = await heads.confirm({ owner, path: each });
    if (head === undefined) {
      if (path !== null) throw codedError("NOT_FOUND", `there is no context ${path}`);
      continue;
    }
    yield* exportContext(storeOf(partitionOf(owner, each)), head, lines, pieces, signal);
  }
  pieces.add(lines.end());
  yield pieces.take();
}

async function* exportContext(
  store: ArchiveStore,
  { address: { path }, contextId, lastOffset, reservedThrough, core, unreadable }: ContextHead,
  lines: ArchiveLines,
  pieces: Pieces,
  signal: AbortSignal,
): AsyncGenerator<ArchivePiece> {
  const firstOffset = await store.firstOffsetOf(contextId);
  // The fact that says so would not be among the events.
  if (unreadable === undefined && firstOffset > firstOffsetOf(core)) throw truncated(path);
  const through = lastOffset;
  pieces.add(lines.context({ path, firstOffset, through, reservedThrough: Math.max(reservedThrough, through) }));
  for (let after = 0; after < through;) {
    signal.throwIfAborted();
    const events = await store.eventsOf({ contextId, after, through, firstOffset, ...page });
    for (const event of events) {
      pieces.add(lines.event(event));
      if (pieces.isFull) yield pieces.take();
    }
    after = events.at(-1)?.offset ?? through;
  }
  if ((await store.firstOffsetOf(contextId)) !== firstOffset) throw truncated(path);
  pieces.add(lines.contextEnd());
}

function truncated(path: string): CodedError {
  return new CodedError("UNAVAILABLE", `${path} gave up a part of its past while it was read; export again`, {
    retryAfterMs: 1_000,
  });
}

/** Every path of the owner, in order, out of all shards. */
async function* pathsOf(stores: readonly ArchiveStore[], owner: string): AsyncGenerator<string> {
  const shards = stores.map((store) => ({ store, paths: [] as string[], after: "", isOver: false }));
  for (;;) {
    for (const shard of shards) {
      if (shard.paths.length > 0 || shard.isOver) continue;
      shard.paths = await shard.store.pathsOf(owner, shard.after, pathsPage);
      shard.isOver = shard.paths.length < pathsPage;
      shard.after = shard.paths.at(-1) ?? shard.after;
    }
    const next = shards
      .filter(({ paths }) => paths.length > 0)
      .sort((a, b) => Buffer.compare(Buffer.from(a.paths[0]!), Buffer.from(b.paths[0]!)))[0];
    if (next === undefined) return;
    yield next.paths.shift()!;
  }
}

/** Lines on their way into the next piece. */
class Pieces {
  readonly #lines: ArchiveLines;
  #held: Buffer[] = [];
  #bytes = 0;

  constructor(lines: ArchiveLines) {
    this.#lines = lines;
  }

  get isFull(): boolean {
    return this.#bytes >= pieceBytes;
  }

  add(line: Buffer): void {
    this.#held.push(line);
    this.#bytes += line.length;
  }

  take(): ArchivePiece {
    const { contexts, events } = this.#lines;
    const data = Buffer.concat(this.#held);
    this.#held = [];
    this.#bytes = 0;
    return { data, contexts, events };
  }
}
