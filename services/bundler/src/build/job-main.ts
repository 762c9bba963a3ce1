/** One job's process: reads a module map from standard input, bundles it, writes the modules to standard output and ends. */
import { writeSync } from "node:fs";
import { buffer } from "node:stream/consumers";
import { stop } from "esbuild";
import { isCodedError } from "iterate/lib";
import { bundle } from "./bundle.js";
import { packEnvelope, unpackEnvelope, type Envelope } from "./envelope.js";
import type { JobReply, JobRequest } from "./job-message.js";

async function run(): Promise<Envelope<JobReply>> {
  const { header, parts } = unpackEnvelope<JobRequest>(await buffer(process.stdin));
  const files = header.files.map((file, index) => ({ ...file, data: parts[index]! }));
  try {
    const { entries, modules } = await bundle({ entries: header.entries, files, platform: header.platform, limits: header.limits });
    return {
      header: { kind: "built", entries, modules: modules.map(({ name, kind }) => ({ name, kind })) },
      parts: modules.map((module) => module.data),
    };
  } catch (error) {
    if (isCodedError(error) && error.code === "BUILD_FAILED")
      return { header: { kind: "refused", message: error.message, problems: error.data["problems"] }, parts: [] };
    return { header: { kind: "crashed", message: error instanceof Error ? error.message : String(error) }, parts: [] };
  }
}

/** Standard output is a pipe that does not block: what it does not take now is offered again when it has room. */
async function write(piece: Uint8Array): Promise<void> {
  for (let at = 0; at < piece.byteLength;) {
    try {
      at += writeSync(1, piece, at, Math.min(piece.byteLength - at, 1 << 20));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }
}

for (const piece of packEnvelope(await run())) await write(piece);
await stop();
process.exit(0);
