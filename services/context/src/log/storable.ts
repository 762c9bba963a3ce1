/**
 * The door of the log: an append becomes complete and storable here, or is refused, before it joins a group with others. What
 * passes cannot make a statement fail, so no append can spoil a group it shares.
 */
import { itx } from "iterate/events";
import { assertContextPath, codedError } from "iterate/lib";
import type { Writer } from "../caller/contract.js";
import { SourceStamp } from "../caller/source.js";
import { checkedPayload } from "../core/control-event.js";
import type { BodyVerdict } from "../json/body.js";
import type { JsonThread } from "../json/worker-thread.js";
import { checkWall } from "../rules/wall.js";
import { checkSchedule } from "../schedules/admission.js";
import type { ScheduleDefinition } from "../schedules/contract.js";
import type { AppendCommand, AppendEvent, ContextAddress, ProcessorLabel, StorableEvent } from "./contract.js";
import { checkedFormat, checkKey, checkUse, checkWriter, type EventAdmission, type TypeRule } from "./event-admission.js";
import { appendLimits, controlBytesOf } from "./limits.js";
import { textProblem } from "./storable-text.js";

/** What an event costs beside its text: columns and array headers of the statement. */
const eventOverheadBytes = 128;

const ownerForm = /^(?:prj_[0-9a-hjkmnp-tv-z]{26}|global)$/;

/** Contexts whose names were found good lately; appends come to the same ones again and again. */
const goodNames = new Set<string>();
const maxGoodNames = 20_000;

/** Throws INVALID_CONTEXT unless `address`, which is `name` as one text, can be the name of a context. */
export function checkAddress({ owner, path }: ContextAddress, name: string): void {
  if (goodNames.has(name)) return;
  if (!ownerForm.test(owner))
    throw codedError("INVALID_CONTEXT", `owner ${JSON.stringify(owner.slice(0, 64))} is neither a project id nor "global"`, {
      field: "owner",
    });
  assertContextPath(path);
  if (goodNames.size >= maxGoodNames) goodNames.clear();
  goodNames.add(name);
}

/** What stands at the door. */
export interface Door {
  readonly admission: EventAdmission;
  readonly json: JsonThread;
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
}

/**
 * The events of an append, ready to be stored: at once, or later when a body is so large that another thread looks at it.
 *
 * @throws CodedError, final: INVALID_CONTEXT, INVALID_INPUT, INVALID_JSON, EVENT_TOO_LARGE, BATCH_TOO_LARGE, FORBIDDEN.
 */
export function storableEvents(
  command: AppendCommand,
  name: string,
  door: Door,
): readonly StorableEvent[] | Promise<readonly StorableEvent[]> {
  const { address, events, writer } = command;
  checkAddress(address, name);
  checkScope(writer, address);
  if (events.length > appendLimits.events) {
    throw codedError(
      "BATCH_TOO_LARGE",
      `an append of ${events.length} events is over the limit of ${appendLimits.events}; split it`,
      { limit: appendLimits.events },
    );
  }
  const traceparent = checkedTraceparent(command.traceparent);
  checkBatchBytes(events);
  const ordinary = { writer, stamp: new SourceStamp(writer, address.path, command.occurrence) };
  const record = command.occurrence === undefined ? null : recordBy(writer, address);
  const stored: StorableEvent[] = [];
  const examined: Promise<void>[] = [];
  for (const [index, event] of events.entries()) {
    const by = record !== null && index === events.length - 1 ? record : ordinary;
    const complete = completion(event, { ...by, address }, door, traceparent);
    const verdict = door.json.examine({
      type: event.type,
      payload: event.payload,
      metadata: event.metadata,
      isKeyed: event.idempotencyKey !== null,
    });
    if (verdict instanceof Promise) examined.push(verdict.then((verdict) => void (stored[index] = complete(verdict))));
    else stored[index] = complete(verdict);
  }
  return examined.length === 0 ? stored : Promise.all(examined).then(() => stored);
}

/** Checks what can be checked without the body; the rest follows with its verdict. */
function completion(
  event: AppendEvent,
  { writer, stamp, address }: { readonly writer: Writer; readonly stamp: SourceStamp; readonly address: ContextAddress },
  { admission, nowMs }: Door,
  traceparent: string | null,
): (verdict: BodyVerdict) => StorableEvent {
  const { type, payload, metadata, idempotencyKey, expectedOffset, isEphemeral } = event;
  const rule = admission.ruleOf(type);
  checkWriter(type, rule, writer);
  checkUse(type, rule, { address, isEphemeral });
  if (isEphemeral) checkEphemeral(event);
  const formatVersion = checkedFormat(type, rule, event.formatVersion);
  if (idempotencyKey !== null) checkKey(idempotencyKey, writer, address.owner);
  if (event.processor !== null) checkLabel(event.processor);
  const limit = controlBytesOf(type);
  if (rule.isControl && (payload?.length ?? 0) > limit)
    throw codedError("EVENT_TOO_LARGE", `a payload of ${payload!.length} bytes is over the limit of ${limit} for ${type}`, {
      limit,
    });
  return ({ problem, digest }) => {
    if (problem !== null) throw codedError("INVALID_JSON", `${type}: ${problem}`, { type });
    const checked =
      rule.isControl || isOfSeveralFormats(rule) ? checkedPayload(rule.declaration!, formatVersion, payload) : undefined;
    if (rule.isControl) checkWall(type, checked, writer);
    if (type === itx.scheduleSet.type) {
      const definition = checked as ScheduleDefinition;
      checkSchedule({ definition, bytes: payload!.length, address, writer, nowMs: nowMs() }, admission);
    }
    const source = stamp.text(type, event.processor);
    return {
      type,
      payload,
      metadata,
      idempotencyKey,
      bodyDigest: digest === null ? null : Buffer.isBuffer(digest) ? digest : Buffer.from(digest),
      expectedOffset,
      source,
      traceparent,
      formatVersion,
      control: rule.isControl ? { payload: checked } : undefined,
      isEphemeral,
      bytes: eventBytes(event) + source.length + eventOverheadBytes,
    };
  };
}

/** The platform's record of a firing belongs to the chain of whoever set the schedule, and is nobody's but the platform's. */
function recordBy(writer: Writer, address: ContextAddress): { readonly writer: Writer; readonly stamp: SourceStamp } {
  const platform: Writer = { ...writer, kind: "service", origin: null, principal: null, isPlatform: true, owner: null };
  return { writer: platform, stamp: new SourceStamp(platform, address.path) };
}

/** A payload stamped with a format it has not could never be read again, so the claim is checked. */
function isOfSeveralFormats({ declaration }: TypeRule): boolean {
  return declaration !== null && declaration.formatVersion > 1;
}

/** What only a stored event can have is refused, not ignored. */
function checkEphemeral({ idempotencyKey }: AppendEvent): void {
  if (idempotencyKey !== null)
    throw codedError("INVALID_INPUT", "an ephemeral event has an idempotency key; nothing is stored that could answer for it", {
      field: "idempotency_key",
    });
}

/** Code reaches the contexts of its own project alone. */
function checkScope(writer: Writer, { owner }: ContextAddress): void {
  if (writer.owner !== null && writer.owner !== owner)
    throw codedError("FORBIDDEN", `code of ${writer.owner} may not append to contexts of ${owner}`);
  const problem =
    (writer.principal === null ? null : textProblem(writer.principal, appendLimits.principalBytes)) ??
    textProblem(writer.cause.chain, appendLimits.chainBytes);
  if (problem !== null) throw codedError("INVALID_INPUT", `the caller's principal or chain ${problem}`);
}

function checkBatchBytes(events: readonly AppendEvent[]): void {
  let total = 0;
  for (const event of events) {
    const body = bodyBytes(event);
    if (body > appendLimits.eventBytes) {
      throw codedError(
        "EVENT_TOO_LARGE",
        `an event body of ${body} bytes is over the limit of ${appendLimits.eventBytes}; send less or refer to a blob`,
        { bytes: body, limit: appendLimits.eventBytes },
      );
    }
    if (event.expectedOffset !== null && !(Number.isSafeInteger(event.expectedOffset) && event.expectedOffset > 0)) {
      throw codedError("INVALID_INPUT", `expected offset ${event.expectedOffset} is not a positive integer below 2^53`, {
        field: "expected_offset",
      });
    }
    total += eventBytes(event);
  }
  if (total > appendLimits.batchBytes) {
    throw codedError("BATCH_TOO_LARGE", `an append of ${total} bytes is over the limit of ${appendLimits.batchBytes}; split it`, {
      bytes: total,
      limit: appendLimits.batchBytes,
    });
  }
}

function bodyBytes({ payload, metadata }: AppendEvent): number {
  return (payload?.length ?? 0) + (metadata?.length ?? 0);
}

function eventBytes(event: AppendEvent): number {
  return bodyBytes(event) + event.type.length + (event.idempotencyKey?.length ?? 0);
}

function checkLabel({ slug, version, whileProcessing }: ProcessorLabel): void {
  const problem =
    textProblem(slug, appendLimits.labelBytes) ??
    textProblem(version, appendLimits.labelBytes) ??
    (whileProcessing === null ? null : textProblem(whileProcessing.type, appendLimits.typeBytes));
  if (problem !== null) throw codedError("INVALID_INPUT", `the processor's label ${problem}`, { field: "processor" });
  if (slug === "") throw codedError("INVALID_INPUT", "the processor's label has no slug", { field: "processor" });
  if (whileProcessing !== null && !Number.isSafeInteger(whileProcessing.offset)) {
    throw codedError("INVALID_INPUT", `the processor's label names the offset ${whileProcessing.offset}`, { field: "processor" });
  }
}

const traceparentForm = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** A malformed traceparent is dropped, as W3C says: it must not fail the work it would have traced. */
function checkedTraceparent(traceparent: string | null): string | null {
  return traceparent !== null && traceparentForm.test(traceparent) ? traceparent : null;
}
