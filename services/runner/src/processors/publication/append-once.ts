/** What a publication writes, under keys of its generation. */
import { isCodedError } from "iterate/lib";
import type { EventInput } from "iterate/stream/processor";
import type { InvocationWriter } from "../../itx/writer.js";

/**
 * Appends under the events' keys. An attempt that was cut short may have said the same in other words (main has moved on once more, a
 * build fails for another reason): what it said stands, and the publication goes on. Throws as the log does otherwise.
 */
export async function appendOnce(writer: InvocationWriter, path: string, events: readonly EventInput[]): Promise<void> {
  try {
    await writer.append(path, events);
  } catch (error) {
    if (!isCodedError(error) || error.code !== "IDEMPOTENCY_CONFLICT") throw error;
  }
}
