/** The edge of Explain: decode, authorize, ask, encode. */
import {
  ReasonKind as Kind,
  type ContextServiceService,
  type ExplainRequest,
  type Reason as ReasonMessage,
} from "@iterate-platform/proto/iterate/context/v1/context";
import type { HandlerOf, MethodRule } from "@iterate-platform/service/grpc-server";
import { codedError } from "iterate/lib";
import type { Reason, ReasonKind, Subject } from "../explain/contract.js";
import type { Explainer } from "../explain/explainer.js";
import { addressOf, offsetOf } from "./input.js";

type Methods = Pick<ContextServiceService, "explain">;

export const explainRules: Record<keyof Methods, MethodRule> = {
  explain: { services: ["ingress", "runner", "bundler"], execution: "allowed", person: "allowed" },
};

const kinds: Readonly<Record<ReasonKind, Kind>> = {
  done: Kind.REASON_KIND_DONE,
  nobody: Kind.REASON_KIND_NOBODY,
  waiting: Kind.REASON_KIND_WAITING,
  retrying: Kind.REASON_KIND_RETRYING,
  halted: Kind.REASON_KIND_HALTED,
  dangling: Kind.REASON_KIND_DANGLING,
  "not-taken-up": Kind.REASON_KIND_NOT_TAKEN_UP,
  "no-owner": Kind.REASON_KIND_NO_OWNER,
  paused: Kind.REASON_KIND_PAUSED,
  "not-due": Kind.REASON_KIND_NOT_DUE,
  unknown: Kind.REASON_KIND_UNKNOWN,
};

/** Names of subscriptions and keys of schedules. */
const maxName = 256;

export function explainHandlers(explainer: Explainer): { readonly [Name in keyof Methods]: HandlerOf<Methods[Name]> } {
  return {
    explain: async ({ context, subject }, { caller, signal }) => {
      const asked = subjectOf(subject);
      const { isDone, reasons, headOffset, away } = await explainer.explain(addressOf(context, caller), asked, signal);
      return { done: isDone, reasons: reasons.map(reasonMessage), headOffset: BigInt(headOffset), away: [...away] };
    },
  };
}

function subjectOf(subject: ExplainRequest["subject"]): Subject {
  switch (subject?.$case) {
    case "eventOffset":
      return { kind: "event", offset: offsetOf("event_offset", subject.value) };
    case "subscription":
      return { kind: "subscription", name: nameOf("subscription", subject.value) };
    case "schedule":
      return { kind: "schedule", key: nameOf("schedule", subject.value) };
    case "runOffset":
      return { kind: "run", offset: offsetOf("run_offset", subject.value) };
    default:
      throw codedError("INVALID_INPUT", "subject is not set; name an event, a subscription, a schedule or a run", {
        field: "subject",
      });
  }
}

function nameOf(field: string, name: string): string {
  if (name !== "" && name.length <= maxName) return name;
  throw codedError("INVALID_INPUT", `${field} has ${name.length} characters; it must have 1 to ${maxName}`, { field });
}

function reasonMessage({ kind, subject, sentence, cursor, attempts, dueAtMs, error, owner, epoch }: Reason): ReasonMessage {
  return {
    kind: kinds[kind],
    subject,
    sentence,
    cursor: BigInt(cursor ?? 0),
    attempts: attempts ?? 0,
    dueAtUs: BigInt(Math.trunc((dueAtMs ?? 0) * 1_000)),
    errorCode: error?.code ?? "",
    errorMessage: error?.message ?? "",
    owner: owner ?? "",
    epoch: BigInt(epoch ?? 0),
  };
}
