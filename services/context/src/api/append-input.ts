/** From append requests to commands of the log. Limits of events are the log's own; here is what the wire form can get wrong. */
import type { AppendRequest, AppendResponse } from "@iterate-platform/proto/iterate/context/v1/context";
import type { EventInput, ProcessorLabel as LabelMessage } from "@iterate-platform/proto/iterate/type/v1/event";
import { codedError } from "iterate/lib";
import type { Writer } from "../caller/contract.js";
import type { AppendCommand, AppendEvent, AppendReceipt, ProcessorLabel } from "../log/contract.js";
import { decodeSource } from "../log/stored-event.js";

/** @throws CodedError INVALID_INPUT, INVALID_CONTEXT. */
export function commandOf(request: AppendRequest, writer: Writer, traceparent: string | null): AppendCommand {
  const { context, appendId, events } = request;
  if (context === undefined) throw codedError("INVALID_CONTEXT", "the append names no context", { field: "context" });
  return {
    address: { owner: context.owner, path: context.path },
    appendId: appendId === "" ? null : appendId,
    events: events.map(eventOf),
    writer,
    traceparent,
  };
}

export function responseOf(receipts: readonly AppendReceipt[]): AppendResponse {
  return {
    receipts: receipts.map(({ offset, createdAtUs, existing, source }) => ({
      offset: BigInt(offset),
      createdAtUs: BigInt(createdAtUs),
      existing,
      source: source === undefined ? undefined : decodeSource(source),
    })),
  };
}

function eventOf({
  type,
  payload,
  metadata,
  idempotencyKey,
  expectedOffset,
  processor,
  ephemeral,
  formatVersion,
}: EventInput): AppendEvent {
  return {
    type,
    payload: payload ?? null,
    metadata: metadata ?? null,
    idempotencyKey: idempotencyKey === "" ? null : idempotencyKey,
    // Beyond 2^53 it stays beyond: the log refuses it.
    expectedOffset: expectedOffset === undefined ? null : Number(expectedOffset),
    formatVersion,
    processor: processor === undefined ? null : labelOf(processor),
    isEphemeral: ephemeral,
  };
}

function labelOf({ slug, version, whileProcessingOffset, whileProcessingType }: LabelMessage): ProcessorLabel {
  const offset = Number(whileProcessingOffset);
  return { slug, version, whileProcessing: offset === 0 ? null : { offset, type: whileProcessingType } };
}
