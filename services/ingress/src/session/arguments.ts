/** The argument lists of `/api`, checked before anything is done with them. A client may send whatever it likes. */
import { projectTemplates, webhookProviders } from "iterate/api";
import { codedError } from "iterate/lib";
import { z } from "zod";

export const maxEventsPerAppend = 1000;

const offset = z.int().nonnegative();
const types = z.array(z.string().min(1).max(256)).max(100);

export const credentials = z.strictObject({ type: z.literal("admin-secret"), secret: z.string().max(1024) });
export const listProjects = z
  .strictObject({ limit: z.int().min(1).max(500).optional(), after: z.string().max(63).optional() })
  .optional();
export const createProject = z.strictObject({ slug: z.string().max(1024), template: z.enum(projectTemplates).optional() });
export const importProject = z.strictObject({ slug: z.string().max(1024).optional(), replace: z.boolean().optional() }).optional();
export const exportProject = z.strictObject({ path: z.string().max(1024).optional(), onPiece: z.unknown() });
export const text = z.string().max(1024);
export const events = z
  .array(
    z.strictObject({
      type: z.string(),
      payload: z.unknown().optional(),
      metadata: z.unknown().optional(),
      idempotencyKey: z.string().optional(),
      offset: z.int().positive().optional(),
      ephemeral: z.boolean().optional(),
      // A writer's source is dropped: the platform stamps it.
      source: z.unknown().optional(),
    }),
  )
  .max(maxEventsPerAppend);
export const readEvents = z
  .strictObject({
    afterOffset: offset.optional(),
    limit: z.int().min(1).max(1000).optional(),
    types: types.optional(),
    includeEphemeral: z.boolean().optional(),
  })
  .optional();
export const waitForEvent = z
  .strictObject({
    type: z.string().min(1).max(256).optional(),
    types: types.min(1).optional(),
    payload: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])).optional(),
    afterOffset: offset.optional(),
    timeoutMs: z.int().min(1).max(120_000).optional(),
  })
  .refine((args) => (args.type === undefined) !== (args.types === undefined), "needs exactly one of type and types");
export const subscribe = z.strictObject({
  afterOffset: offset.optional(),
  types: types.optional(),
  includeEphemeral: z.boolean().optional(),
  onEvents: z.unknown(),
});
export const call = z.strictObject({ expression: z.unknown(), onItem: z.unknown() });
export const explain = z.union([
  z.strictObject({ event: z.int().positive() }),
  z.strictObject({ subscription: z.string().min(1).max(256) }),
  z.strictObject({ schedule: z.string().min(1).max(256) }),
  z.strictObject({ run: z.int().positive() }),
]);
export const readLogs = z
  .strictObject({
    since: z.iso.datetime({ offset: true }).optional(),
    path: z.string().max(1024).optional(),
    pageToken: z.string().max(64).optional(),
    limit: z.int().min(1).max(1000).optional(),
  })
  .optional();
export const eventPlace = z.strictObject({ path: z.string().max(1024), offset: z.int().positive() });
export const createWebhookEndpoint = z.strictObject({
  provider: z.enum(webhookProviders),
  name: z.string().max(1024).optional(),
  secret: z.string().max(1024).optional(),
});

/** Throws INVALID_INPUT that names the first bad argument. */
export function checked<Schema extends z.ZodType>(method: string, schema: Schema, value: unknown): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const place = issue === undefined || issue.path.length === 0 ? "its argument" : issue.path.map(String).join(".");
  throw codedError("INVALID_INPUT", `${method}: ${place}: ${issue?.message ?? "is not valid"}`, { method });
}
