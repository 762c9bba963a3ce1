/** A context's own table of values by key. It survives `abort`, and nothing of it is in the log. */
import type { Json } from "iterate/expression";

/** Bytes are bytes of UTF-8. */
export const kvLimits = {
  keyBytes: 512,
  /** JSON of one value. */
  valueBytes: 1_048_576,
  /** Keys of one context, and the bytes of their keys and values. */
  keys: 10_000,
  totalBytes: 67_108_864,
  /** Entries of one page of a list. */
  page: 1_000,
  defaultPage: 100,
} as const;

export interface KvEntry {
  readonly value: Json;
  /** Of this value; no other value of the context has it, or had it. */
  readonly version: number;
}

export interface KvListing {
  readonly key: string;
  readonly version: number;
  /** Of the key and the JSON of the value. */
  readonly bytes: number;
}

/** What must hold for a change to be made: nothing, that the key holds the value of a version, or (0) that it holds none. */
export type IfVersion = number | undefined;

/** The outcome of a change. */
export type KvChange =
  | { readonly kind: "changed"; readonly version: number }
  /** The key has another version; 0 when it holds nothing. */
  | { readonly kind: "conflict"; readonly version: number }
  | { readonly kind: "full"; readonly limit: "keys" | "bytes" };

export interface KvStore {
  get(contextId: number, key: string): Promise<{ readonly value: string; readonly version: number } | undefined>;
  /** @param value JSON. */
  put(contextId: number, key: string, value: string, ifVersion: IfVersion): Promise<KvChange>;
  /** Answers version 0 when the key holds nothing any more. */
  remove(contextId: number, key: string, ifVersion: IfVersion): Promise<KvChange & { readonly existed?: boolean }>;
  /** Entries whose key begins with `prefix` and comes after `after`, by key. */
  list(contextId: number, prefix: string, after: string, limit: number): Promise<readonly KvListing[]>;
}
