/** The platform's own processors by the name their subscription targets use. */
import type { NativeProcessor } from "./native-hosts.js";
import { PublicationProcessor } from "./publication/processor.js";
import { BundlePublisher, type PublisherParts } from "./publication/publisher.js";

/** Build, probe and appends of one publication. */
const publicationMs = 240_000;

export function builtinProcessors(parts: PublisherParts): Record<string, NativeProcessor> {
  return {
    publication: {
      isHostedIn: ({ path }) => path === "/repos/config",
      checkpointMs: publicationMs,
      create: (environment) => new PublicationProcessor(new BundlePublisher(parts, environment)),
    },
  };
}
