/** The reasons that facts come to. Pure: what is known is given, and so is the time. */
import type { PauseState, ScheduleRow, SubscriptionRow } from "../core/contract.js";
import type { DeliveryFacts, Reason, RunnerHalf } from "./contract.js";

/** What of a subscription is asked about: an event it takes, or all that it is owed. */
export interface Owed {
  /** It is done once the subscription has been delivered through this offset. */
  readonly through: number;
  /** Whether an event that it takes lies after the cursor, where that is known; `null` where it is not. */
  readonly isOwed: boolean | null;
}

/** Whether a subscription takes an event. */
export function takes(
  { consumes, afterOffset }: SubscriptionRow,
  event: { readonly offset: number; readonly type: string },
): boolean {
  return event.offset > afterOffset && (consumes.length === 0 || consumes.includes("*") || consumes.includes(event.type));
}

export function subscriptionReason(row: SubscriptionRow, half: RunnerHalf | null, { through, isOwed }: Owed): Reason {
  const subject = `subscription ${JSON.stringify(row.name)}`;
  if (half === null) {
    if (row.haltedAtOffset !== null) return halted(subject, row, null);
    return { kind: "unknown", subject, sentence: "the runner did not say where it stands" };
  }
  const facts = half.deliveries.find(({ name }) => name === row.name);
  const owner = half.lease === null ? {} : { owner: half.lease.pod, epoch: half.lease.epoch };
  if (facts === undefined || facts.configuredAtOffset !== row.configuredAtOffset)
    return half.lease === null
      ? noOwner(subject, facts)
      : {
          kind: "not-taken-up",
          subject,
          ...owner,
          sentence: `its runner has not looked at it since it was configured at offset ${row.configuredAtOffset}`,
        };
  const known = { subject, cursor: facts.cursor, attempts: facts.attempts, ...owner };
  if (facts.cursor >= through) return { kind: "done", ...known, sentence: `it has been delivered through offset ${facts.cursor}` };
  const failed = facts.error === null ? {} : { error: facts.error };
  if (row.haltedAtOffset !== null || facts.status === "halted") return { ...halted(subject, row, facts), ...known, ...failed };
  if (facts.status === "dangling")
    return {
      kind: "dangling",
      ...known,
      ...failed,
      sentence: `nothing answers to its target ${JSON.stringify(row.target)}; publish or configure it, and delivery goes on after offset ${facts.cursor}`,
    };
  if (half.lease === null) return noOwner(subject, facts);
  if (facts.status === "retrying") {
    const due = facts.dueAtMs === null ? {} : { dueAtMs: facts.dueAtMs };
    const reason = facts.error === null ? "" : `: ${facts.error.code}: ${facts.error.message}`;
    const alone = facts.isSuspect ? ", alone, since its process was killed" : "";
    return {
      kind: "retrying",
      ...known,
      ...failed,
      ...due,
      sentence: `attempt ${facts.attempts} after offset ${facts.cursor} failed and is made again${alone}${reason}`,
    };
  }
  if (isOwed === false) return { kind: "done", ...known, sentence: `nothing that it takes comes after offset ${facts.cursor}` };
  return {
    kind: "waiting",
    ...known,
    sentence: `it has been delivered through offset ${facts.cursor} and its runner works on what follows`,
  };
}

function noOwner(subject: string, facts: DeliveryFacts | undefined): Reason {
  const sentence = "no runner works on the partition of this context; one takes it within seconds of being there";
  return {
    kind: "no-owner",
    subject,
    sentence,
    ...(facts === undefined ? {} : { cursor: facts.cursor, attempts: facts.attempts }),
  };
}

function halted(subject: string, { name, haltedAtOffset, missedBelow }: SubscriptionRow, facts: DeliveryFacts | null): Reason {
  const since = haltedAtOffset === null ? "" : ` since offset ${haltedAtOffset}`;
  const why = facts?.error == null ? "" : `: ${facts.error.code}: ${facts.error.message}`;
  const place = missedBelow === null ? "" : ` with afterOffset ${missedBelow - 1} or later`;
  return {
    kind: "halted",
    subject,
    sentence: `delivery is halted${since}, until itx/subscription-delivery-resumed{name: ${JSON.stringify(name)}}${place}${why}`,
  };
}

/** `null` when the context is not paused. */
export function pauseReason(pause: PauseState | null, what: string): Reason | null {
  if (pause === null) return null;
  const why = pause.reason === null ? "" : ` (${pause.reason})`;
  return {
    kind: "paused",
    subject: "context",
    sentence: `the context has been paused since offset ${pause.pausedAtOffset}${why}: ${what} until itx/resumed`,
  };
}

/** @param dueAtMs when it is due; `null` when that is not known. */
export function scheduleReason(row: ScheduleRow, dueAtMs: number | null, nowMs: number): Reason {
  const subject = `schedule ${JSON.stringify(row.key)}`;
  if (row.failedAtOffset !== null)
    return {
      kind: "halted",
      subject,
      sentence: `a firing was refused at offset ${row.failedAtOffset}; it rests until it is set again`,
    };
  if (dueAtMs === null)
    return { kind: "unknown", subject, sentence: `it is counted from the event at offset ${row.since}, which cannot be read` };
  const at = new Date(dueAtMs).toISOString();
  return dueAtMs > nowMs
    ? { kind: "not-due", subject, dueAtMs, sentence: `it is due at ${at}` }
    : { kind: "waiting", subject, dueAtMs, sentence: `it has been due since ${at} and is fired by the next process that looks` };
}

export function runReason(requestOffset: number, half: RunnerHalf | null): Reason {
  const subject = `run ${requestOffset}`;
  if (half === null)
    return { kind: "unknown", subject, sentence: "it has not ended, and the runner did not say whether it was taken up" };
  const facts = half.runs.find((run) => run.requestOffset === requestOffset);
  if (facts === undefined)
    return half.lease === null
      ? noOwner(subject, undefined)
      : {
          kind: "not-taken-up",
          subject,
          owner: half.lease.pod,
          epoch: half.lease.epoch,
          sentence: "its runner has not taken it up yet",
        };
  const deadline = new Date(facts.dueAtMs).toISOString();
  return {
    kind: "waiting",
    subject,
    dueAtMs: facts.dueAtMs,
    epoch: facts.epoch,
    ...(half.lease === null ? {} : { owner: half.lease.pod }),
    sentence: `owner ${facts.epoch} of the partition has taken it up; nothing executes runs yet, so it ends at its deadline, ${deadline}`,
  };
}
