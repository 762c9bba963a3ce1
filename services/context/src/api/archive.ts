/** ArchiveService: decode, authorize, call, encode. */
import type { ArchiveServiceService, ExportResponse, StageImportRequest } from "@iterate-platform/proto/iterate/context/v1/archive";
import type { CallContext, Handlers, MethodRule, MethodRules } from "@iterate-platform/service/grpc-server";
import { codedError } from "iterate/lib";
import type { ArchiveStore } from "../archive/contract.js";
import { exportArchive, type ExportParts } from "../archive/export.js";
import { stageImport, type StageParts } from "../archive/stage.js";
import { plainAddress } from "./input.js";

const forIngress: MethodRule = { services: ["ingress"], execution: "refused", person: "allowed" };

export const archiveRules: MethodRules<ArchiveServiceService> = {
  export: forIngress,
  stageImport: forIngress,
  openImport: forIngress,
  removeImport: forIngress,
};

/** Bytes of one message. */
const messageBytes = 262_144;
/** How long one call opens or removes before it answers that there is more. */
const workMs = 5_000;

const idForm = /^[0-9a-f]{32}$/;
const slugForm = /^[a-z0-9-]{1,63}$/;

export interface ArchiveParts {
  readonly exports: ExportParts;
  readonly stages: StageParts;
  readonly stores: readonly ArchiveStore[];
  /** Monotonic milliseconds. */
  readonly nowMs: () => number;
}

export function archiveHandlers({ exports, stages, stores, nowMs }: ArchiveParts): Handlers<ArchiveServiceService> {
  /** Repeats `step` on every shard, within the time of one call: true when none has more. */
  const work = async (step: (store: ArchiveStore) => Promise<boolean>): Promise<boolean> => {
    const until = nowMs() + workMs;
    for (const store of stores) while (await step(store)) if (nowMs() > until) return false;
    return true;
  };
  return {
    export: async function* ({ owner, slug, path }, { signal }: CallContext): AsyncGenerator<ExportResponse> {
      const address = plainAddress(owner, path ?? "/");
      if (!slugForm.test(slug))
        throw codedError("INVALID_INPUT", `${JSON.stringify(slug.slice(0, 64))} is no slug`, { field: "slug" });
      const request = { owner: address.owner, slug, path: path === undefined ? null : address.path };
      for await (const { data, contexts, events } of exportArchive(exports, request, signal)) {
        for (let from = 0; from < data.length; from += messageBytes)
          yield { data: data.subarray(from, from + messageBytes), contexts: BigInt(contexts), events: BigInt(events) };
      }
    },
    stageImport: async (requests: AsyncIterable<StageImportRequest>) => {
      const pieces: AsyncIterator<StageImportRequest> = requests[Symbol.asyncIterator]();
      const piece = await pieces.next();
      if (piece.done === true) throw codedError("INVALID_INPUT", "the import holds no archive");
      const first = piece.value;
      const { owner } = plainAddress(first.owner, "/");
      const id = importId(first.importId);
      try {
        const { contexts, events } = await stageImport(stages, { id, owner, replaces: first.replace }, dataOf(first, pieces));
        return { contexts: BigInt(contexts), events: BigInt(events) };
      } catch (error) {
        // Whoever asked may have had it removed before this began, and would not do so again: its owner would be barred for ever.
        await work((store) => store.removeStep(id)).catch(() => false);
        throw error;
      }
    },
    openImport: async ({ importId: id, owner }) => {
      const address = plainAddress(owner, "/");
      return { done: await work((store) => store.openStep(importId(id), address.owner)) };
    },
    removeImport: async ({ importId: id }) => ({ done: await work((store) => store.removeStep(importId(id))) }),
  };
}

async function* dataOf(first: StageImportRequest, rest: AsyncIterator<StageImportRequest>): AsyncGenerator<Uint8Array> {
  yield first.data;
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value.data;
}

function importId(id: string): string {
  if (!idForm.test(id)) throw codedError("INVALID_INPUT", "import_id is not 32 hexadecimal digits", { field: "import_id" });
  return id;
}
