/** Events of the GitHub integration, in `/integrations/github/<name>`. */
import { z } from "zod";
import { eventType } from "./event-type.js";

export const githubWebhookReceived = eventType(
  "github/webhook-received",
  z.object({
    delivery: z.object({ id: z.string(), name: z.string() }),
    /** The body as GitHub sent it. */
    body: z.json(),
  }),
  { description: "GitHub delivered a webhook with a right signature.", writer: "platform" },
);
