/** Events of a git repository, in its context. */
import { z } from "zod";
import { eventType } from "./event-type.js";

export const commitCompleted = eventType(
  "repo/commit-completed",
  z.object({
    path: z.string(),
    branch: z.string(),
    commitOid: z.string(),
    /** Commit the branch was at before; null when it was made. */
    parentOid: z.string().nullable(),
    message: z.string(),
    changedPaths: z.array(z.string()).max(1000),
    pusher: z.string().optional(),
  }),
  { description: "A branch moved to a commit.", writer: "platform" },
);

export const publicationSettled = eventType(
  "repo/publication-settled",
  z.object({
    /** Offset of the commit it answers, which is its generation. */
    requestOffset: z.int().positive(),
    status: z.enum(["published", "failed", "superseded"]),
    /** Subscription rows that the published commit configures. */
    subscriptions: z
      .array(z.object({ context: z.string(), name: z.string() }))
      .max(1000)
      .optional(),
  }),
  { description: "The publication of a commit has ended; the outcome is in the project's root.", writer: "platform" },
);
