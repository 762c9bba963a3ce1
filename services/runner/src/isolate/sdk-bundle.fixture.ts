/** Project code of the tests, bundled with the real SDK as a build would. */
import { build } from "esbuild";
import type { Bundle } from "./bundle.js";
import { bundleOf } from "./isolate.fixture.js";

const project = `
import { IterateConfigEntrypoint, StreamProcessorDurableObject } from "iterate/sdk";
import { StreamProcessor, defineProcessorContract } from "iterate/stream/processor";
import { z } from "zod";

const Contract = defineProcessorContract({
  slug: "hoarder", version: "1.0.0", description: "keeps every blob it reduces",
  stateSchema: z.object({ blobs: z.array(z.string()).default([]) }),
  events: { blob: z.object({ blob: z.string() }) }, consumes: ["blob"], emits: ["hoarded", "noted"],
});
class Hoarder extends StreamProcessor {
  contract = Contract;
  reduce({ event, state }) { return { blobs: [...state.blobs, event.payload.blob] }; }
  processEvent({ event, emit, append, blockProcessorWhile, runInBackground }) {
    if (!event) return;
    emit({ type: "hoarded", payload: { blob: event.payload.blob } });
    if (event.payload.blob === "append") blockProcessorWhile(() => append({ type: "noted", payload: {} }));
    if (event.payload.blob === "background") runInBackground(() => append({ type: "noted", payload: { late: true } }));
    if (event.payload.blob === "throw") throw new Error("this blob is refused");
  }
}
export class HoarderDurableObject extends StreamProcessorDurableObject { processor = new Hoarder(); }
export default class extends IterateConfigEntrypoint {
  async fetch(request) {
    using itx = this.getItx();
    const { path } = await itx.whoami();
    const page = await itx.cd("agents").readEvents({ limit: 1 });
    return Response.json({ path, caller: this.callerPath(), page, method: request.method });
  }
}`;

let built: Promise<string> | undefined;

/** A bundle with `HoarderDurableObject` and a default export, each time under another digest. */
export async function sdkBundle(): Promise<Bundle> {
  return bundleOf(await (built ??= bundleProject()));
}

async function bundleProject(): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: project, resolveDir: import.meta.dirname, loader: "ts" },
    bundle: true,
    format: "esm",
    target: "es2024",
    platform: "neutral",
    mainFields: ["module", "main"],
    conditions: ["iterate-source", "workerd"],
    write: false,
  });
  return outputFiles[0]!.text;
}
