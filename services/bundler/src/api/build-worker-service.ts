/** `BuildWorkerService`: one untrusted job per child process, no credential, no call to anyone. */
import type {
  BuildWorkerServiceService,
  RunBuildRequest,
  RunBuildResponse,
} from "@iterate-platform/proto/iterate/bundler/v1/build";
import type { CallContext, Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import { toStatus } from "@iterate-platform/service/status";
import { CodedError, codedError, isCodedError } from "iterate/lib";
import type { BuildLimits, BuildOutput } from "../build/contract.js";
import type { BuildJobInput } from "../build/job-process.js";
import type { JobQueue } from "../build/job-queue.js";
import { FileCollector, pieces, wireKind } from "../build/worker-client.js";

export interface BuildWorkerParts {
  readonly queue: JobQueue;
  readonly limits: BuildLimits;
  readonly toolchain: string;
  readonly run: (job: BuildJobInput) => Promise<BuildOutput>;
}

export const buildWorkerRules: MethodRules<typeof BuildWorkerServiceService> = {
  runBuild: { services: ["bundler"], execution: "refused", drain: "finish" },
};

const maxDeadlineMs = 60_000;

export function buildWorkerHandlers({
  queue,
  limits,
  toolchain,
  run,
}: BuildWorkerParts): Handlers<typeof BuildWorkerServiceService> {
  return {
    async *runBuild(requests: AsyncIterable<RunBuildRequest>, call: CallContext): AsyncGenerator<RunBuildResponse> {
      const { job, files } = await readJob(requests, limits, toolchain);
      yield progress("resolve", `waiting for ${queue.waiting} jobs before this one`);
      const input = {
        entries: job.entries,
        files,
        deadlineMs: Math.min(job.deadlineMs > 0 ? job.deadlineMs : maxDeadlineMs, maxDeadlineMs),
        signal: call.signal,
      };
      let output: BuildOutput;
      try {
        output = await queue.run(call.signal, () => run(input));
      } catch (error) {
        if (!isCodedError(error) || error.code !== "BUILD_FAILED") throw error;
        yield { step: { $case: "end", value: { error: toStatus(error), entries: [] } } };
        return;
      }
      for (const { name, kind, data } of output.modules) {
        for (const piece of pieces(data))
          yield { step: { $case: "chunk", value: { name, kind: wireKind(kind), data: piece.data } } };
      }
      yield {
        step: {
          $case: "end",
          value: { error: undefined, entries: output.entries.map((entry) => ({ ...entry, classes: [...entry.classes] })) },
        },
      };
    },
  };
}

async function readJob(requests: AsyncIterable<RunBuildRequest>, limits: BuildLimits, toolchain: string) {
  const collector = new FileCollector(limits);
  let job: Extract<NonNullable<RunBuildRequest["step"]>, { $case: "job" }>["value"] | undefined;
  for await (const { step } of requests) {
    if (step?.$case === "job" && job === undefined) {
      job = step.value;
      if (job.toolchain !== toolchain)
        throw new CodedError(
          "UNAVAILABLE",
          "this worker has another toolchain than the build is keyed by; retry, an upgrade is under way",
          { retryAfterMs: 2000 },
        );
      if (job.entries.length < 1 || job.entries.length > limits.maxEntries)
        throw codedError("INVALID_INPUT", `a job has ${job.entries.length} entries; 1 to ${limits.maxEntries} are built`);
    } else if (step?.$case === "chunk" && job !== undefined) {
      collector.take(step.value);
      if (collector.files.length === job.fileCount) return { job, files: collector.files };
    } else {
      throw codedError("INVALID_INPUT", "a job begins with what to build, and then has its files");
    }
  }
  throw codedError("INVALID_INPUT", `a job of ${job?.fileCount ?? 0} files ended after ${collector.files.length}`);
}

const progress = (stage: string, message: string): RunBuildResponse => ({ step: { $case: "progress", value: { stage, message } } });
