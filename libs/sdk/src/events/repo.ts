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
