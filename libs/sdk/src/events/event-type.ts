/**
 * How an event type of the platform is declared: its name, what it means, what its payload holds in each format, and who may write it.
 * The declarations of a namespace are its contract file, `<namespace>.ts`; the catalog is collected from those files and is closed.
 */
import type { z } from "zod";

export const platformPrefix = "events.iterate.com/";

/** An earlier format of a type's payload. */
export interface EarlierFormat {
  /** The shape that was written. */
  readonly payload: z.ZodType;
  /** The same payload in the next format. Pure and total for every payload of this shape: it runs at each read. */
  readonly upcast: (payload: unknown) => unknown;
}

/**
 * How an event that is not stored is named: as the fact it tells, or as one of the three nouns that only such events may be: a piece of
 * a stream (`<stream>-frame`), a sign of life, a record for diagnosis.
 */
export type EphemeralKind = "fact" | "frame" | "heartbeat" | "diagnostic";

export interface EventTypeDeclaration<Schema extends z.ZodType = z.ZodType> {
  /** Full type, `events.iterate.com/<namespace>/<event>`. */
  readonly type: string;
  /** One sentence for the reference page. */
  readonly description: string;
  /** Shape of the payload in its newest format. */
  readonly payload: Schema;
  /** `platform`: the append boundary refuses everyone but services of the platform. `anyone`: whoever may append. */
  readonly writer: "platform" | "anyone";
  /** True when the core state of a context folds it. */
  readonly control: boolean;
  /** `null` for a stored event. */
  readonly ephemeral: EphemeralKind | null;
  /** Number of the newest format, from 1. */
  readonly formatVersion: number;
  /** The formats before it, oldest first: `earlier[0]` is format 1. */
  readonly earlier: readonly EarlierFormat[];
  /** For an ask whose answers its name does not tell: the types that answer it. */
  readonly answeredBy: readonly string[];
  /** The family of types, matched by prefix, that it belongs to; `null` when it belongs to none. */
  readonly family: EventFamily | null;
}

/** The families that code matches by prefix. No other prefix is ever matched: `itx/` as a whole would catch what nobody meant. */
export const eventFamilies = ["itx/run-", "itx/subscription-", "itx/schedule-", "project/hostname-"] as const;
export type EventFamily = (typeof eventFamilies)[number];

export interface EventTypeOptions {
  readonly description: string;
  readonly writer: "platform" | "anyone";
  readonly control?: true;
  readonly ephemeral?: EphemeralKind;
  readonly earlier?: readonly EarlierFormat[];
  readonly answeredBy?: readonly string[];
  readonly family?: EventFamily;
}

/**
 * Declares one event type. `name` is `<namespace>/<event>`, both kebab-case; `payload` is the newest format. A payload that changes its
 * shape keeps the old one in `earlier`: one release reads both and writes the old, and the next writes the new once its deployment
 * allows it, so that the one before can still be rolled back to.
 */
export function eventType<Schema extends z.ZodType>(
  name: string,
  payload: Schema,
  { description, writer, control, ephemeral, earlier = [], answeredBy = [], family }: EventTypeOptions,
): EventTypeDeclaration<Schema> {
  return {
    type: platformPrefix + name,
    description,
    payload,
    writer,
    control: control ?? false,
    ephemeral: ephemeral ?? null,
    formatVersion: earlier.length + 1,
    earlier,
    answeredBy: answeredBy.map((answer) => platformPrefix + answer),
    family: family ?? null,
  };
}
