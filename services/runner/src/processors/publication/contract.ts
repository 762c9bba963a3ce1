/** Publication: each commit on `main` of the config repo becomes the code `itx.config` stands for, or a fact that says why not. */
import { repo } from "iterate/events";
import { defineProcessorContract, type ProcessorState } from "iterate/stream/processor";
import { z } from "zod";

/** A commit that waits to be published. */
const candidate = z.object({
  /** Offset of its fact; also its generation: a lower one never replaces a higher one. */
  offset: z.int(),
  commitOid: z.string(),
});

export const publicationContract = defineProcessorContract({
  slug: "publication",
  version: "1",
  description: "Publishes commits of the config repo.",
  stateSchema: z.object({
    /** Commits without an outcome, oldest first. */
    candidates: z.array(candidate).default([]),
    /** Subscription rows made by the newest publication; those that go are removed by the next. */
    subscriptions: z.array(z.object({ context: z.string(), name: z.string() })).default([]),
  }),
  events: {
    [repo.commitCompleted.type]: repo.commitCompleted.payload,
    [repo.publicationSettled.type]: repo.publicationSettled.payload,
  },
  consumes: [repo.commitCompleted.type, repo.publicationSettled.type],
  emits: [repo.publicationSettled.type],
});

export type Publication = ProcessorState<typeof publicationContract>;
export type Candidate = z.infer<typeof candidate>;
/** A subscription row by where it is. */
export type RowName = Publication["subscriptions"][number];
