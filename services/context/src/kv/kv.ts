/** Values by key, as callers have them: every limit is checked here, before anything is stored. */
import type { Json } from "iterate/expression";
import { codedError, type CodedError } from "iterate/lib";
import { isTooDeep, loopLimitError } from "../caller/loop-guard.js";
import type { Writer } from "../caller/contract.js";
import type { Heads } from "../log/confirm.js";
import type { ContextAddress } from "../log/contract.js";
import { textProblem } from "../log/storable-text.js";
import { kvLimits, type IfVersion, type KvChange, type KvEntry, type KvListing, type KvStore } from "./contract.js";

export interface KvParts {
  readonly heads: Heads;
  /** The store that holds a context's partition. */
  readonly storeOf: (address: ContextAddress) => KvStore;
}

export class Kv {
  readonly #parts: KvParts;

  constructor(parts: KvParts) {
    this.#parts = parts;
  }

  /** The value under a key; `null` when there is none. */
  async get(address: ContextAddress, key: string): Promise<KvEntry | null> {
    checkKey(key);
    const contextId = await this.#contextId(address);
    const held = contextId === null ? undefined : await this.#parts.storeOf(address).get(contextId, key);
    return held === undefined ? null : { value: JSON.parse(held.value) as Json, version: held.version };
  }

  /**
   * Sets a value, if the key's version is `ifVersion` (0: if there is none yet).
   *
   * @throws CodedError VERSION_CONFLICT{version}, KV_LIMIT, NOT_FOUND for a context that is not born, INVALID_INPUT, LOOP_LIMIT.
   */
  async put(
    address: ContextAddress,
    writer: Writer,
    key: string,
    value: Json,
    ifVersion: IfVersion,
  ): Promise<{ readonly version: number }> {
    checkKey(key);
    const json = JSON.stringify(value);
    const bytes = Buffer.byteLength(json);
    if (bytes > kvLimits.valueBytes)
      throw codedError("KV_LIMIT", `the value has ${bytes} bytes of JSON; at most ${kvLimits.valueBytes} are kept`, {
        bytes,
        limit: kvLimits.valueBytes,
      });
    const contextId = await this.#bornId(address, writer);
    return { version: changed(await this.#parts.storeOf(address).put(contextId, key, json, ifVersion), key) };
  }

  /** Takes a value away, if the key's version is `ifVersion`. Throws as `put`. */
  async remove(address: ContextAddress, writer: Writer, key: string, ifVersion: IfVersion): Promise<{ readonly deleted: boolean }> {
    checkKey(key);
    const contextId = await this.#bornId(address, writer);
    const change = await this.#parts.storeOf(address).remove(contextId, key, ifVersion);
    changed(change, key);
    return { deleted: change.existed ?? false };
  }

  /** Entries by key, from the first that begins with `prefix` and comes after `after`. */
  async list(
    address: ContextAddress,
    { prefix = "", after = "", limit = kvLimits.defaultPage }: { prefix?: string; after?: string; limit?: number },
  ): Promise<{ readonly entries: readonly KvListing[]; readonly next: string | null }> {
    const contextId = await this.#contextId(address);
    if (contextId === null) return { entries: [], next: null };
    const found = await this.#parts.storeOf(address).list(contextId, prefix, after, limit + 1);
    const entries = found.slice(0, limit);
    return { entries, next: found.length > limit ? entries.at(-1)!.key : null };
  }

  async #contextId(address: ContextAddress): Promise<number | null> {
    return (await this.#parts.heads.confirm(address))?.contextId ?? null;
  }

  async #bornId(address: ContextAddress, { cause }: Writer): Promise<number> {
    if (isTooDeep(cause)) throw loopLimitError(cause);
    const contextId = await this.#contextId(address);
    if (contextId !== null) return contextId;
    throw codedError("NOT_FOUND", `there is no context ${address.path} yet; its first append makes it`, { path: address.path });
  }
}

function changed(change: KvChange, key: string): number {
  switch (change.kind) {
    case "changed":
      return change.version;
    case "conflict":
      throw conflict(key, change.version);
    case "full": {
      const limit = change.limit === "keys" ? kvLimits.keys : kvLimits.totalBytes;
      throw codedError("KV_LIMIT", `the context would hold more than ${limit} ${change.limit}; delete some first`, {
        limit,
        of: change.limit,
      });
    }
  }
}

function conflict(key: string, version: number): CodedError {
  const held = version === 0 ? "holds nothing" : `has version ${version}`;
  return codedError("VERSION_CONFLICT", `the key ${JSON.stringify(key.slice(0, 64))} ${held}; nothing was changed`, { version });
}

function checkKey(key: string): void {
  const problem = key === "" ? "is empty" : textProblem(key, kvLimits.keyBytes);
  if (problem === null) return;
  throw codedError("INVALID_INPUT", `the key ${JSON.stringify(key.slice(0, 64))} ${problem}`, { field: "key" });
}
