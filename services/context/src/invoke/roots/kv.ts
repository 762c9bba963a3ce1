/** `kv`: values that a context keeps by key. */
import { group, method } from "@iterate-platform/service/capability";
import type { Json } from "iterate/expression";
import { z } from "zod";
import { kvLimits } from "../../kv/contract.js";
import type { Kv } from "../../kv/kv.js";
import type { BuiltinCall, ContextRoot } from "../contract.js";

const key = z.string();
const version = z.int().nonnegative();
const onlyIf = z.strictObject({ ifVersion: version.optional() }).optional();

const types = `interface KvEntry {
  value: unknown;
  /** Changes with every put; pass it as ifVersion to change exactly this value. */
  version: number;
}
interface KvPage {
  entries: { key: string; version: number; bytes: number }[];
  /** Pass it as after for the next page; null on the last one. */
  next: string | null;
}`;

export function kvRoot(kv: Kv): ContextRoot {
  return {
    name: "kv",
    isContextRoot: false,
    description: "Keeps JSON values by key.",
    instructions:
      "Values belong to the context and are not in its log; they stay when the context is aborted. Keys have at most " +
      `${kvLimits.keyBytes} bytes, values 1 MiB of JSON, a context ${kvLimits.keys} keys and 64 MiB in all (KV_LIMIT). To change a value ` +
      "only if nobody else did, pass the version it was read with as ifVersion, 0 for a key that must hold nothing yet: VERSION_CONFLICT " +
      "names the version that holds.",
    types,
    member: group<BuiltinCall>({
      get: method(
        z.tuple([key]),
        {
          signature: "(key: string) => Promise<KvEntry | null>",
          description: "The value under a key and its version; null when there is none.",
          example: 'itx.kv.get("colour")',
          effect: "read",
        },
        ({ address }: BuiltinCall, wanted) => kv.get(address, wanted),
      ),
      put: method(
        z.tuple([key, z.json(), onlyIf]),
        {
          signature: "(key: string, value: unknown, options?: {ifVersion?: number}) => Promise<{version: number}>",
          description: "Sets the value under a key.",
          example: 'itx.kv.put("colour", {name: "blue"})',
          effect: "write",
        },
        ({ address, writer }: BuiltinCall, wanted, value, options) =>
          kv.put(address, writer, wanted, value as Json, options?.ifVersion),
      ),
      delete: method(
        z.tuple([key, onlyIf]),
        {
          signature: "(key: string, options?: {ifVersion?: number}) => Promise<{deleted: boolean}>",
          description: "Takes the value under a key away; answers whether there was one.",
          example: 'itx.kv.delete("colour")',
          effect: "write",
        },
        ({ address, writer }: BuiltinCall, wanted, options) => kv.remove(address, writer, wanted, options?.ifVersion),
      ),
      list: method(
        z.tuple([
          z
            .strictObject({
              prefix: z.string().max(kvLimits.keyBytes).optional(),
              after: z.string().max(kvLimits.keyBytes).optional(),
              limit: z.int().min(1).max(kvLimits.page).optional(),
            })
            .optional(),
        ]),
        {
          signature: "(page?: {prefix?: string; after?: string; limit?: number}) => Promise<KvPage>",
          description: `Keys in order, with versions and sizes; ${kvLimits.defaultPage} unless limit (at most ${kvLimits.page}) says otherwise.`,
          example: 'itx.kv.list({prefix: "user/", limit: 50})',
          effect: "read",
        },
        ({ address }: BuiltinCall, page) => kv.list(address, (page ?? {}) as Parameters<typeof kv.list>[1]),
      ),
    }),
  };
}
