/** What the triage processor promises: the board it keeps and the events it takes and writes. */
import { github } from "iterate/events";
import { defineProcessorContract } from "iterate/stream/processor";
import { z } from "zod";

export const deliveredType = "events.iterate.com/github/webhook-received";
export const labelledType = "events.example.com/triage/item-labeled";

const item = z.object({
  kind: z.enum(["issue", "pull-request"]),
  repo: z.string(),
  number: z.int(),
  title: z.string(),
  url: z.string(),
  author: z.string(),
  state: z.enum(["open", "closed", "merged"]),
  /** Labels on GitHub. */
  labels: z.array(z.string()),
  /** Labels that the rules chose when it was opened. */
  suggested: z.array(z.string()),
  openedAt: z.string(),
  updatedAt: z.string(),
});

export type BoardItem = z.output<typeof item>;

export const Triage = defineProcessorContract({
  slug: "triage",
  version: "1",
  description: "Keeps a board of issues and pull requests and labels new ones by simple rules.",
  stateSchema: z.object({
    /** Deliveries seen, in all and by event name. */
    deliveries: z.int().default(0),
    byName: z.record(z.string(), z.int()).default({}),
    /** By `<repo>#<number>`. */
    items: z.record(z.string(), item).default({}),
  }),
  events: {
    [deliveredType]: github.githubWebhookReceived.payload,
    [labelledType]: z.object({
      item: z.string(),
      kind: z.enum(["issue", "pull-request"]),
      title: z.string(),
      url: z.string(),
      labels: z.array(z.object({ label: z.string(), reason: z.string() })).min(1),
    }),
  },
  consumes: [deliveredType, labelledType],
  emits: [labelledType],
});
