/** Cuts a stream of bytes into lines of bounded length. */
import { codedError } from "iterate/lib";

/**
 * The lines of `chunks` without their line feeds; what follows the last one is a line if it is not empty.
 *
 * @throws CodedError INVALID_INPUT when a line is longer than `maxBytes`.
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let number = 1;
  const hold = (part: Buffer): void => {
    heldBytes += part.length;
    if (heldBytes > maxBytes)
      throw codedError("INVALID_INPUT", `line ${number} of the archive is longer than ${maxBytes} bytes`, { line: number });
    held.push(part);
  };
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    for (let from = 0; from < bytes.length;) {
      const end = bytes.indexOf(10, from);
      if (end < 0) {
        hold(bytes.subarray(from));
        break;
      }
      hold(bytes.subarray(from, end));
      yield held.length === 1 ? held[0]! : Buffer.concat(held);
      held = [];
      heldBytes = 0;
      number += 1;
      from = end + 1;
    }
  }
  if (heldBytes > 0) yield Buffer.concat(held);
}
