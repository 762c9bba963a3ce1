/** Archives over the context service: what it answers in bounded parts is asked for until it is whole. */
import type { ArchiveServiceClient } from "@iterate-platform/proto/iterate/context/v1/archive";
import type { ServiceClient } from "@iterate-platform/service/grpc-client";
import { codedError, isCodedError } from "iterate/lib";
import type { Project } from "./contract.js";
import type { ImportPorts } from "./imports.js";

export type ArchiveClient = ServiceClient<(typeof ArchiveServiceClient)["service"]>;

/** Bound of a whole export or import. */
const archiveMs = 12 * 3_600_000;
/** Bound of one part of opening or removing. */
const partMs = 30_000;
/** Tries of one part, while the service is away for a moment, and the wait between them. */
const tries = 5;
const betweenMs = 1_000;
/** Bytes of one message. */
const messageBytes = 1_048_576;

export interface ArchivePiece {
  readonly data: Uint8Array;
  /** Complete contexts, and events, so far. */
  readonly contexts: number;
  readonly events: number;
}

export class Archives implements Omit<ImportPorts, "append"> {
  readonly #client: ArchiveClient;
  readonly #pause: (ms: number) => Promise<void>;

  constructor(client: ArchiveClient, pause: (ms: number) => Promise<void>) {
    this.#client = client;
    this.#pause = pause;
  }

  /** The archive of a project, or of one context of it, as fast as it is taken. */
  async *export({ id, slug }: Project, path: string | undefined, signal: AbortSignal): AsyncGenerator<ArchivePiece> {
    const pieces = this.#client.export({ owner: id, slug, path }, { signal, deadlineMs: archiveMs });
    for await (const { data, contexts, events } of pieces) yield { data, contexts: Number(contexts), events: Number(events) };
  }

  async stage(
    { importId, owner, replace }: Parameters<ImportPorts["stage"]>[0],
    data: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): ReturnType<ImportPorts["stage"]> {
    const call = this.#client.stageImport({ signal, deadlineMs: archiveMs });
    const sending = (async () => {
      await call.send({ importId, owner, replace, data: Buffer.alloc(0) });
      for await (const piece of data) {
        for (let from = 0; from < piece.length; from += messageBytes)
          await call.send({
            importId: "",
            owner: "",
            replace: false,
            data: Buffer.from(piece.subarray(from, from + messageBytes)),
          });
      }
      call.end();
    })();
    sending.catch(() => call.cancel());
    try {
      const { contexts, events } = await call.response;
      return { contexts: Number(contexts), events: Number(events) };
    } catch (error) {
      // What broke off the sending is the reason, unless the service had one of its own.
      if (signal.aborted || (isCodedError(error) && error.code !== "CANCELLED")) throw error;
      await sending;
      throw error;
    }
  }

  open(importId: string, owner: string): Promise<void> {
    return this.whole(async () => (await this.#client.openImport({ importId, owner }, { deadlineMs: partMs })).done);
  }

  remove(importId: string): Promise<void> {
    return this.whole(async () => (await this.#client.removeImport({ importId }, { deadlineMs: partMs })).done);
  }

  /** Repeats `part` until it answers true, over failures that pass. */
  async whole(part: () => Promise<boolean>): Promise<void> {
    for (let failures = 0; ;) {
      try {
        if (await part()) return;
        failures = 0;
      } catch (error) {
        failures += 1;
        if (failures === tries || !isCodedError(error) || !error.retryable) throw error;
        await this.#pause(betweenMs);
      }
    }
  }
}

/** Throws FORBIDDEN unless it is the operator who asks. */
export function assertOperator(principal: string | undefined, operator: string): void {
  if (principal !== operator)
    throw codedError("FORBIDDEN", "archives are made and imported by the operator of the deployment alone");
}
