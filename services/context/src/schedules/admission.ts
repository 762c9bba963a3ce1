/** The door for schedules: what a firing would be refused for is refused when it is set, as far as that is known then. */
import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import type { Writer } from "../caller/contract.js";
import { checkedPayload } from "../core/control-event.js";
import type { ContextAddress } from "../log/contract.js";
import { checkUse, checkWriter, type EventAdmission } from "../log/event-admission.js";
import { textProblem } from "../log/storable-text.js";
import { checkWall } from "../rules/wall.js";
import type { ScheduleDefinition } from "./contract.js";
import { firingWriter } from "./definition.js";
import { cronOf } from "./when.js";

const { scheduleLimits } = itx;

/** Types that a schedule would turn against itself, or against whoever decides about a context. */
const unscheduled: ReadonlySet<string> = new Set(
  [
    itx.scheduleSet,
    itx.scheduleCancelled,
    itx.scheduleFired,
    itx.scheduleFailed,
    itx.paused,
    itx.resumed,
    itx.subscriptionDeliveryResumed,
  ].map(({ type }) => type),
);

export interface ScheduleToAdmit {
  readonly definition: ScheduleDefinition;
  /** Bytes of the payload as it was sent. */
  readonly bytes: number;
  readonly address: ContextAddress;
  /** Who sets it. */
  readonly writer: Writer;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
}

/** Throws INVALID_INPUT, FORBIDDEN or EVENT_TOO_LARGE for a schedule that may not be set. */
export function checkSchedule({ definition, bytes, address, writer, nowMs }: ScheduleToAdmit, admission: EventAdmission): void {
  if (bytes > scheduleLimits.definitionBytes)
    throw codedError(
      "EVENT_TOO_LARGE",
      `a schedule of ${bytes} bytes is over the limit of ${scheduleLimits.definitionBytes}; schedule one event that asks for the rest`,
      { limit: scheduleLimits.definitionBytes },
    );
  const { key, when, events } = definition;
  const problem = textProblem(key, scheduleLimits.keyBytes);
  if (problem !== null) throw refused("key", problem);
  if ("at" in when && Date.parse(when.at) > nowMs + scheduleLimits.delayMs)
    throw refused("when.at", `${when.at} is more than 365 days ahead`);
  if ("cron" in when) checkCron(when);
  const { kind, cause, origin, isPlatform } = writer;
  const firing = firingWriter({ origin: origin ?? address.path, cause, platform: isPlatform, by: kind }, address.owner);
  for (const [at, { type, payload }] of events.entries()) {
    if (unscheduled.has(type)) throw refused(`events.${at}.type`, `${type} may not be scheduled`);
    const rule = admission.ruleOf(type);
    checkWriter(type, rule, firing);
    checkUse(type, rule, { address, isEphemeral: false });
    if (!rule.isControl) continue;
    const bytes = payload === undefined ? null : Buffer.from(JSON.stringify(payload));
    checkWall(type, checkedPayload(rule.declaration!, rule.formatVersion, bytes), firing);
  }
}

function checkCron(when: { readonly cron: string; readonly timeZone: string }): void {
  try {
    cronOf(when);
  } catch (error) {
    throw refused("when", (error as RangeError).message);
  }
}

function refused(field: string, problem: string) {
  const { type } = itx.scheduleSet;
  return codedError("INVALID_INPUT", `${type}: payload.${field}: ${problem}`, { type, field: `payload.${field}` });
}
