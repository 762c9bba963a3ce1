/** A deployment of its own, as exports and imports see it: several of them stand for different clusters in a test. */
import { chainNames } from "../caller/writer.js";
import { Vocabulary } from "../core/vocabulary.js";
import { JsonThread } from "../json/worker-thread.js";
import { HeadConfirmer } from "../log/confirm.js";
import { owner } from "../log/engine.fixture.js";
import { PostgresArchiveStore } from "../log/postgres/postgres-archive-store.js";
import { PostgresLogStore } from "../log/postgres/postgres-log-store.js";
import { PooledSession } from "../log/postgres/sql-session.js";
import { RetentionPod } from "../retention/retention.fixture.js";
import type { ArchivedEvent, ArchiveStore } from "./contract.js";
import { exportArchive, type ExportParts } from "./export.js";
import { stageImport, type Staged, type StageParts } from "./stage.js";

class CountingStore extends PostgresArchiveStore {
  eventsRead = 0;

  override async eventsOf(range: Parameters<ArchiveStore["eventsOf"]>[0]): Promise<ArchivedEvent[]> {
    const events = await super.eventsOf(range);
    this.eventsRead += events.length;
    return events;
  }
}

export class ArchivePod extends RetentionPod {
  readonly archives: CountingStore;
  readonly #json = new JsonThread();

  constructor(url: string) {
    super(url);
    this.archives = new CountingStore(new PooledSession(this.pool), new PostgresLogStore(this.pool));
  }

  /** Events that exports have read. */
  get eventsRead(): number {
    return this.archives.eventsRead;
  }

  async export(path: string | null = null): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for await (const { data } of this.exported(path)) pieces.push(data);
    return Buffer.concat(pieces);
  }

  exported(path: string | null = null) {
    return exportArchive(this.exports, { owner, slug: "shop", path }, new AbortController().signal);
  }

  stage(id: string, data: AsyncIterable<Uint8Array>, replaces = false): Promise<Staged> {
    return stageImport(this.stages, { id, owner, replaces }, data);
  }

  get exports(): ExportParts {
    const heads = new HeadConfirmer(this.engine.cache);
    return { heads, stores: [this.archives], storeOf: () => this.archives, now: () => new Date(0) };
  }

  get stages(): StageParts {
    const log = new PostgresLogStore(this.pool);
    return {
      stores: [this.archives],
      storeOf: () => this.archives,
      generationOf: () => log.generation(),
      vocabulary: new Vocabulary(),
      json: this.#json,
      newChain: chainNames({ nowMs: Date.now, random: Math.random }),
    };
  }

  async open(id: string): Promise<void> {
    while (await this.archives.openStep(id, owner));
  }

  async remove(id: string): Promise<void> {
    while (await this.archives.removeStep(id));
  }

  /** Stages, opens and cleans up. */
  async import(id: string, archive: Buffer, replaces = false): Promise<Staged> {
    const staged = await this.stage(id, inPieces(archive), replaces);
    await this.open(id);
    await this.remove(id);
    return staged;
  }

  /** Every row of every event, as text, by context and offset. */
  async everything(): Promise<string[]> {
    const { rows } = await this.pool.query<{ row: string }>(
      `select jsonb_build_array(c.owner, c.path, e."offset", t.name, e.format_version, e.is_control, e.append_id, e.idempotency_key,
         encode(e.body_digest, 'hex'), (extract(epoch from e.created_at) * 1000000)::bigint, e.source, e.traceparent,
         encode(convert_to(e.payload, 'utf8'), 'hex'), encode(convert_to(e.metadata, 'utf8'), 'hex'))::text as row
       from event e join context c using (context_id) join event_type t using (type) order by c.path, e."offset"`,
    );
    return rows.map(({ row }) => row);
  }

  /** How many rows the database holds of anything. */
  async size(): Promise<Readonly<Record<string, number>>> {
    const tables = ["context", "commit", "event", "core_state", "retention", "truncation", "subscription_floor", "import"];
    const sizes: Record<string, number> = {};
    for (const table of tables) {
      const { rows } = await this.pool.query<{ n: number }>(`select count(*)::int as n from ${table}`);
      sizes[table] = rows[0]!.n;
    }
    return sizes;
  }

  override async close(): Promise<void> {
    await super.close();
    await this.#json.close();
  }
}

/** In pieces of an odd size, so that lines are cut anywhere. */
export async function* inPieces(archive: Buffer, bytes = 7_777): AsyncGenerator<Buffer> {
  for (let from = 0; from < archive.length; from += bytes) yield archive.subarray(from, from + bytes);
}

let imports = 0;
export const newImport = (): string => String(++imports).padStart(32, "0");
