/** Reads the answer of an operation that yields frames: lines of a mark and JSON, from a body that is hostile in size and shape. */
import type { CodedError } from "iterate/lib";
import { codedError } from "iterate/lib";
import { projectFailure, type ProjectFailure } from "./project-failure.js";
import { noAnswer, type Isolate, type Operation, type Surroundings } from "./isolate.js";
import type { Invocation } from "./invocation.js";
import { LineSplitter } from "./line-splitter.js";

export interface FramesCall {
  readonly operation: Extract<Operation, "describe" | "process-batch">;
  readonly surroundings: Surroundings;
  readonly module?: string;
  readonly className?: string;
  /** JSON text of the input. */
  readonly body?: Uint8Array;
}

const frameMark = "f".charCodeAt(0);
const failureMark = "e".charCodeAt(0);
const doneMark = "d".charCodeAt(0);

/**
 * Runs the call and hands each frame to the invocation. Resolves with what the code threw, or with `undefined` when it went well.
 * @throws ISOLATE_OUTPUT for an answer of another shape or size, and whatever else ended the invocation.
 */
export async function runFrames(
  isolate: Isolate,
  invocation: Invocation,
  call: FramesCall,
  frameBytes: number,
): Promise<ProjectFailure | undefined> {
  const head = {
    ...call.surroundings,
    ...(call.module === undefined ? {} : { module: call.module }),
    ...(call.className === undefined ? {} : { className: call.className }),
  };
  const answer = await isolate.request(invocation, call.operation, head, { body: call.body ?? null });
  if (answer.statusCode !== 200) {
    await answer.body.dump();
    throw await isolate.failure(invocation, noAnswer());
  }
  const lines = new LineSplitter(frameBytes + 1);
  try {
    for await (const chunk of answer.body) {
      const complete = lines.push(chunk as Buffer);
      // Before what follows it: a skipped frame must not be missing from an answer that otherwise ends well.
      if (lines.hasSkipped) throw output(`A frame of the answer has more than ${frameBytes} bytes.`);
      for (const line of complete) {
        if (line[0] === frameMark) await invocation.frame(line.subarray(1));
        else if (line[0] === failureMark || line[0] === doneMark) {
          // The last mark is doubled when records were written; they come by another way.
          if (line[1] === line[0]) await isolate.drained(invocation);
          return line[0] === failureMark ? projectFailure(line.subarray(2)) : undefined;
        } else throw output("The answer holds a line of no known kind.");
      }
    }
  } catch (thrown) {
    const failure = await isolate.failure(invocation, thrown);
    answer.body.destroy();
    throw failure;
  }
  throw await isolate.failure(invocation, noAnswer());
}

function output(message: string): CodedError {
  return codedError("ISOLATE_OUTPUT", message);
}
