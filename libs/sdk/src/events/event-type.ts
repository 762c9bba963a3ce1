/** How an event type of the platform is declared: its name, what it means, what its payload holds and who may write it. */
import type { z } from "zod";

export const platformPrefix = "events.iterate.com/";

export interface EventTypeDeclaration<Schema extends z.ZodType = z.ZodType> {
  /** Full type, `events.iterate.com/<namespace>/<event>`. */
  readonly type: string;
  /** One sentence for the reference page. */
  readonly description: string;
  /** Shape of the payload. */
  readonly payload: Schema;
  /** `platform`: the append boundary refuses everyone but services of the platform. `anyone`: whoever may append. */
  readonly writer: "platform" | "anyone";
  /** True when the core state of a context folds it. */
  readonly control: boolean;
  /** Version of the stored format. */
  readonly formatVersion: number;
}

/** Declares one event type. `name` is `<namespace>/<event>`, both kebab-case. */
export function eventType<Schema extends z.ZodType>(
  name: string,
  payload: Schema,
  options: { description: string; writer: "platform" | "anyone"; control?: true },
): EventTypeDeclaration<Schema> {
  return {
    type: platformPrefix + name,
    description: options.description,
    payload,
    writer: options.writer,
    control: options.control ?? false,
    formatVersion: 1,
  };
}
