/** Values by key in Postgres. */
import type { Pool, Queryable } from "@iterate-platform/service/postgres";
import { kvLimits, type IfVersion, type KvChange, type KvListing, type KvStore } from "../../kv/contract.js";
import { addToTotal, findValue, listValues, lockTotal, removeValue, setValue } from "./kv.sql.js";

interface Held {
  readonly value: string;
  readonly version: string;
  readonly bytes: number;
}

export class PostgresKvStore implements KvStore {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  async get(contextId: number, key: string): Promise<{ value: string; version: number } | undefined> {
    const held = await valueOf(this.#pool, contextId, key);
    return held === undefined ? undefined : { value: held.value, version: Number(held.version) };
  }

  put(contextId: number, key: string, value: string, ifVersion: IfVersion): Promise<KvChange> {
    return this.#pool.transaction(async (transaction): Promise<KvChange> => {
      const total = await locked(transaction, contextId);
      const held = await valueOf(transaction, contextId, key);
      const heldVersion = Number(held?.version ?? 0);
      if (ifVersion !== undefined && ifVersion !== heldVersion) return { kind: "conflict", version: heldVersion };
      const size = Buffer.byteLength(key) + Buffer.byteLength(value);
      const keys = held === undefined ? 1 : 0;
      const bytes = size - (held?.bytes ?? 0);
      if (total.keys + keys > kvLimits.keys) return { kind: "full", limit: "keys" };
      if (bytes > 0 && total.bytes + bytes > kvLimits.totalBytes) return { kind: "full", limit: "bytes" };
      const version = total.lastVersion + 1;
      await transaction.query(setValue, [contextId, key, value, version, size]);
      await transaction.query(addToTotal, [contextId, keys, bytes, version]);
      return { kind: "changed", version };
    });
  }

  remove(contextId: number, key: string, ifVersion: IfVersion): Promise<KvChange & { existed?: boolean }> {
    return this.#pool.transaction(async (transaction): Promise<KvChange & { existed?: boolean }> => {
      const total = await locked(transaction, contextId);
      const held = await valueOf(transaction, contextId, key);
      const heldVersion = Number(held?.version ?? 0);
      if (ifVersion !== undefined && ifVersion !== heldVersion) return { kind: "conflict", version: heldVersion };
      if (held === undefined) return { kind: "changed", version: 0, existed: false };
      await transaction.query(removeValue, [contextId, key]);
      await transaction.query(addToTotal, [contextId, -1, -held.bytes, total.lastVersion]);
      return { kind: "changed", version: 0, existed: true };
    });
  }

  async list(contextId: number, prefix: string, after: string, limit: number): Promise<KvListing[]> {
    const { rows } = await this.#pool.query<{ key: string; version: string; bytes: number }>(listValues, [
      contextId,
      prefix,
      after,
      limit,
    ]);
    return rows.map(({ key, version, bytes }) => ({ key, version: Number(version), bytes }));
  }
}

async function locked(transaction: Queryable, contextId: number): Promise<{ keys: number; bytes: number; lastVersion: number }> {
  const { rows } = await transaction.query<{ keys: number; bytes: string; last_version: string }>(lockTotal, [contextId]);
  const { keys, bytes, last_version: lastVersion } = rows[0]!;
  return { keys, bytes: Number(bytes), lastVersion: Number(lastVersion) };
}

async function valueOf(database: Queryable, contextId: number, key: string): Promise<Held | undefined> {
  return (await database.query<Held>(findValue, [contextId, key])).rows[0];
}
