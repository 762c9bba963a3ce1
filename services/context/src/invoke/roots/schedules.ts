/** `schedules`: what is appended to a context later, again and again, or by the calendar. */
import { group, method } from "@iterate-platform/service/capability";
import { itx } from "iterate/events";
import { z } from "zod";
import type { ScheduleRow } from "../../core/contract.js";
import { readableCore, type Heads } from "../../log/confirm.js";
import type { ContextAddress, ContextHead } from "../../log/contract.js";
import type { ScheduleStore } from "../../schedules/contract.js";
import { scheduleViews } from "../../schedules/view.js";
import { none, oneName } from "../arguments.js";
import type { BuiltinCall, ContextRoot } from "../contract.js";
import { present, record } from "../record.js";

const types = `type When =
  | { at: string }
  | { afterMs: number }
  | { everyMs: number }
  | { cron: string; timeZone: string; catchUp?: "coalesce" | "skip" | "all"; max?: number };
interface ScheduleInput {
  /** Names it in the context, at most 200 bytes. */
  key: string;
  /** An ISO time with its offset, milliseconds, or five cron fields on the clock of an IANA time zone. */
  when: When;
  /** 1 to 100, appended as one batch. */
  events: { type: string; payload?: unknown; metadata?: unknown }[];
}
interface Receipt {
  key: string;
  /** Offset of the event that set it. */
  scheduledAtOffset: number;
}
interface Schedule extends ScheduleInput, Receipt {
  /** ISO time at which it is due next; null while it rests. */
  nextAt: string | null;
  /** Offset of the fact that its events were refused; null while it is in force. */
  failedAtOffset: number | null;
}`;

export function schedulesRoot(heads: Heads, storeOf: (partition: number) => ScheduleStore): ContextRoot {
  const find = async (address: ContextAddress): Promise<{ head: ContextHead | undefined; rows: readonly ScheduleRow[] }> => {
    const head = await heads.confirm(address);
    return { head, rows: head === undefined ? [] : Object.values(readableCore(head).schedules) };
  };
  const views = async (address: ContextAddress, isWanted: (row: ScheduleRow) => boolean) => {
    const { head, rows } = await find(address);
    const wanted = rows.filter(isWanted);
    return head === undefined || wanted.length === 0 ? [] : await scheduleViews(head, wanted, storeOf(head.partition));
  };
  return {
    name: "schedules",
    isContextRoot: true,
    description: "Appends events to the context later, again and again, or by the calendar.",
    instructions:
      "Setting a key again replaces its schedule; an interval that is set again as it is keeps its clock. Each firing appends the events " +
      "and an itx/schedule-fired as one batch, once. What was missed comes to one firing. While the context is paused nothing fires. A " +
      "firing that is refused is recorded, and the schedule rests until it is set again.",
    types,
    member: group<BuiltinCall>({
      list: method(
        none,
        {
          signature: "() => Promise<Schedule[]>",
          description: "All schedules, by key.",
          example: "itx.schedules.list()",
          effect: "read",
        },
        ({ address }: BuiltinCall) => views(address, () => true),
      ),
      get: method(
        oneName,
        {
          signature: "(key: string) => Promise<Schedule | null>",
          description: "The schedule of a key; null when there is none.",
          example: 'itx.schedules.get("daily-report")',
          effect: "read",
        },
        async ({ address }: BuiltinCall, name) => (await views(address, ({ key }) => key === name))[0] ?? null,
      ),
      set: method(
        z.tuple([itx.scheduleSet.payload]),
        {
          signature: "(schedule: ScheduleInput) => Promise<Receipt>",
          description: "Makes a schedule, or replaces the one of its key.",
          example:
            'itx.schedules.set({key: "daily-report", when: {cron: "0 9 * * MON-FRI", timeZone: "Europe/London"}, events: [{type: "acme/report-due"}]})',
          effect: "write",
        },
        async (call: BuiltinCall, schedule) => ({
          key: schedule.key,
          scheduledAtOffset: await record(call, itx.scheduleSet, schedule),
        }),
      ),
      cancel: method(
        z.tuple([z.string(), z.strictObject({ ifScheduledAtOffset: z.int().nonnegative().optional() }).optional()]),
        {
          signature: "(key: string, options?: {ifScheduledAtOffset?: number}) => Promise<{cancelled: boolean}>",
          description: "Takes a schedule away, with ifScheduledAtOffset only the one that event set.",
          example: 'itx.schedules.cancel("daily-report")',
          effect: "write",
        },
        async (call: BuiltinCall, key, options) => {
          const isThere = async (): Promise<boolean> => (await find(call.address)).rows.some((row) => row.key === key);
          if (!(await isThere())) return { cancelled: false };
          await record(call, itx.scheduleCancelled, present({ key, ...options }));
          return { cancelled: !(await isThere()) };
        },
      ),
    }),
  };
}
