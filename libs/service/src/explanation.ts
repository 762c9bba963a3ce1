/** Explanations between the wire and JSON. */
import {
  ReasonKind as WireKind,
  type ExplainRequest,
  type ExplainResponse,
  type Reason as WireReason,
} from "@iterate-platform/proto/iterate/context/v1/context";
import type { ExplainSubject, Explanation, Reason, ReasonKind } from "iterate/api";

const kinds: Readonly<Partial<Record<WireKind, ReasonKind>>> = {
  [WireKind.REASON_KIND_DONE]: "done",
  [WireKind.REASON_KIND_NOBODY]: "nobody",
  [WireKind.REASON_KIND_WAITING]: "waiting",
  [WireKind.REASON_KIND_RETRYING]: "retrying",
  [WireKind.REASON_KIND_HALTED]: "halted",
  [WireKind.REASON_KIND_DANGLING]: "dangling",
  [WireKind.REASON_KIND_NOT_TAKEN_UP]: "not-taken-up",
  [WireKind.REASON_KIND_NO_OWNER]: "no-owner",
  [WireKind.REASON_KIND_PAUSED]: "paused",
  [WireKind.REASON_KIND_NOT_DUE]: "not-due",
};

export function explainSubject(subject: ExplainSubject): NonNullable<ExplainRequest["subject"]> {
  if ("event" in subject) return { $case: "eventOffset", value: BigInt(subject.event) };
  if ("subscription" in subject) return { $case: "subscription", value: subject.subscription };
  if ("schedule" in subject) return { $case: "schedule", value: subject.schedule };
  return { $case: "runOffset", value: BigInt(subject.run) };
}

export function fromExplainResponse({ done, reasons, headOffset, away }: ExplainResponse): Explanation {
  return { done, reasons: reasons.map(fromReason), headOffset: Number(headOffset), away };
}

/** A kind of a later release is one that is not known here. */
function fromReason({ kind, subject, sentence, cursor, attempts, dueAtUs, errorCode, errorMessage, owner }: WireReason): Reason {
  return {
    kind: kinds[kind] ?? "unknown",
    subject,
    sentence,
    ...(cursor === 0n ? {} : { cursor: Number(cursor) }),
    ...(attempts === 0 ? {} : { attempts }),
    ...(dueAtUs === 0n ? {} : { dueAt: new Date(Number(dueAtUs / 1_000n)).toISOString() }),
    ...(errorCode === "" ? {} : { error: { code: errorCode, message: errorMessage } }),
    ...(owner === "" ? {} : { owner }),
  };
}
