/** Events of a project, in its root context. */
import { z } from "zod";
import { eventType } from "./event-type.js";

export const projectCreateRequested = eventType(
  "project/create-requested",
  z.object({ slug: z.string(), configRepoTemplate: z.enum(["minimal", "triage"]).optional() }),
  { description: "Someone asked for the project.", writer: "platform", control: true },
);

export const projectCreated = eventType("project/created", z.object({}), {
  description: "The project exists.",
  writer: "platform",
});

export const projectImported = eventType("project/imported", z.object({ slug: z.string(), importId: z.string() }), {
  description: "The project was made from an archive; what is before this was imported.",
  writer: "platform",
  control: true,
});

export const workerUpdated = eventType(
  "project/worker-updated",
  z.object({
    commitOid: z.string(),
    generation: z.int(),
    digest: z.string(),
    modules: z.record(z.string(), z.object({ identity: z.string(), classes: z.array(z.string()) })),
  }),
  { description: "A commit of the config repo is published.", writer: "platform" },
);

export const workerUpdateFailed = eventType(
  "project/worker-update-failed",
  z.object({
    commitOid: z.string(),
    generation: z.int(),
    error: z.object({ code: z.string(), message: z.string().max(8000) }),
    /** True when the platform, not the code, was at fault: the publication is still owed. */
    unavailable: z.boolean().optional(),
  }),
  { description: "A commit of the config repo could not be published; the published code stays.", writer: "platform" },
);
