/** Arguments that several builtins take. Limits of what is stored are the log's own; here is what a value must look like. */
import { z } from "zod";
import { readLimits } from "../log/limits.js";

const offset = z.int().nonnegative();
const eventType = z.string().min(1).max(readLimits.typeBytes);
const types = z.array(eventType).max(readLimits.types);

/** No argument at all. */
export const none = z.tuple([]);

/** One name. */
export const oneName = z.tuple([z.string().min(1).max(1_024)]);

export const events = z.array(
  z.strictObject({
    type: z.string(),
    payload: z.unknown().optional(),
    metadata: z.unknown().optional(),
    idempotencyKey: z.string().optional(),
    offset: z.int().positive().optional(),
    ephemeral: z.boolean().optional(),
  }),
);

export const page = z.tuple([
  z
    .strictObject({
      afterOffset: offset.optional(),
      limit: z.int().min(1).max(readLimits.events).optional(),
      types: types.optional(),
      includeEphemeral: z.boolean().optional(),
    })
    .optional(),
]);

export const wait = z.tuple([
  z
    .strictObject({
      type: eventType.optional(),
      types: types.min(1).optional(),
      payload: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])).optional(),
      afterOffset: offset.optional(),
      timeoutMs: z.int().min(1).max(readLimits.waitMs).optional(),
    })
    .refine(({ type, types: several }) => (type === undefined) !== (several === undefined), "needs exactly one of type and types"),
]);

export const follow = z.tuple([
  z
    .strictObject({
      afterOffset: offset.optional(),
      types: types.optional(),
      includeEphemeral: z.boolean().optional(),
    })
    .optional(),
]);

/** An expression as text or parsed; what is wrong with it is said by whoever parses it. */
export const expressionForm = z.union([z.string(), z.array(z.json())]);
