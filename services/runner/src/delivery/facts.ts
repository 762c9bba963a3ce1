/** The platform's records about a delivery, as they are owed to its context's log, and what a processor emits. */
import { EventInput as WireInput } from "@iterate-platform/proto/iterate/type/v1/event";
import { toProtoEventInput } from "@iterate-platform/service/stream-event";
import { itx } from "iterate/events";
import type { EventInput } from "iterate/stream/processor";
import type { AttemptFailure } from "./charge.js";
import type { OwedEvent } from "./contract.js";

/** Whose reaction the record belongs to. */
export interface Attribution {
  readonly cause: { readonly chain: string; readonly depth: number };
  readonly principal: string | null;
  readonly traceparent: string;
}

/** Names the deliverer in execution claims; the platform's own, so that its records are taken. */
export const deliveryCode = "builtin:delivery";

const maxMessage = 2_000;
const maxStack = 8_192;

/** The failure as events and rows keep it. */
export function failureText({ code, message, stack }: AttemptFailure): { code: string; message: string; stack?: string } {
  return {
    code,
    message: message.slice(0, maxMessage),
    ...(stack === undefined || stack === "" ? {} : { stack: stack.slice(0, maxStack) }),
  };
}

export interface Halt {
  readonly name: string;
  readonly afterOffset: number;
  /** The one event that failed, when it is known. */
  readonly offset: number | null;
  readonly attempts: number;
  readonly failure: AttemptFailure;
}

export function haltFact(id: string, { name, afterOffset, offset, attempts, failure }: Halt, attribution: Attribution): OwedEvent {
  const payload = { name, afterOffset, ...(offset === null ? {} : { offset }), attempts, error: failureText(failure) };
  return owed(id, "halt", { type: itx.subscriptionDeliveryHalted.type, payload }, deliveryCode, attribution);
}

/** The record of an emitted event that its log refused for good. */
export function refusalFact(id: string, name: string, refused: OwedEvent, failure: AttemptFailure): OwedEvent {
  const payload = { name, emit: refused.id, type: WireInput.decode(refused.event).type, error: failureText(failure) };
  return owed(id, "fact", { type: itx.subscriptionDeliveryFailed.type, payload }, deliveryCode, refused);
}

/** An event a processor emits. Its key is its author's, else made from the row that owes it: one key however often it is sent. */
export function emitted(id: string, event: EventInput, code: string, attribution: Attribution): OwedEvent {
  return owed(id, "emit", event, code, attribution);
}

function owed(
  id: string,
  kind: OwedEvent["kind"],
  event: EventInput,
  code: string,
  { cause, principal, traceparent }: Attribution,
): OwedEvent {
  const wire = toProtoEventInput({ ...event, idempotencyKey: event.idempotencyKey ?? `itx/emit:${id}` });
  return { id, kind, event: WireInput.encode(wire).finish(), code, cause, principal, traceparent };
}
