/**
 * The seam to git's `pre-receive`: the hook hands the proposed updates over descriptor 3 and takes the verdict from descriptor 4, both
 * held by the process that started git. git waits for it with the new objects in quarantine.
 */
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { codedError } from "iterate/lib";
import type { RefUpdate } from "./contract.js";

const script = `#!/bin/sh
# Hands the proposed ref updates to the service that started git and waits for its verdict.
{ printf '%s\\n' "$GIT_QUARANTINE_PATH"; cat; printf 'end\\n'; } >&3 || exit 1
IFS= read -r verdict <&4 || { echo 'the service went away; try again' >&2; exit 1; }
while IFS= read -r line <&4 && [ "$line" != . ]; do printf '%s\\n' "$line" >&2; done
[ "$verdict" = ok ]
`;

/** Writes the hook below `root` and answers the folder to give git as \`core.hooksPath\`. */
export async function installReceiveHook(root: string): Promise<string> {
  const folder = join(root, "hooks");
  await mkdir(folder, { recursive: true });
  const file = join(folder, "pre-receive");
  await writeFile(file, script);
  await chmod(file, 0o755);
  return folder;
}

export interface ReceiveRequest {
  /** Object folder of the quarantine. */
  readonly objectDir: string;
  readonly updates: readonly RefUpdate[];
}

/** A push names its refs in a few hundred bytes each; more than this is refused before it is parsed. */
const maxRequestLength = 1024 * 1024;

const zeroOid = "0".repeat(40);

/** What the hook asks, or undefined when git ended without asking. Throws INVALID_INPUT when it is too long or malformed. */
export async function readReceiveRequest(stream: Readable): Promise<ReceiveRequest | undefined> {
  let text = "";
  for await (const piece of stream.setEncoding("utf8") as AsyncIterable<string>) {
    text += piece;
    if (text.length > maxRequestLength) throw codedError("INVALID_INPUT", "the push names too many refs");
    if (text.endsWith("\nend\n")) return parse(text.slice(0, -"end\n".length));
  }
  return undefined;
}

interface Verdict {
  readonly isAccepted: boolean;
  /** For the pusher to read; git shows each line as `remote: …`. */
  readonly text: string;
}

export function answerReceive(stream: Writable, { isAccepted, text }: Verdict): void {
  // A push that was ended meanwhile reads no verdict.
  stream.on("error", () => undefined);
  const lines = text.split("\n").map((line) => (line === "." ? ". " : line));
  stream.end(`${isAccepted ? "ok" : "no"}\n${lines.join("\n")}\n.\n`);
}

function parse(text: string): ReceiveRequest {
  const [objectDir, ...lines] = text.split("\n").slice(0, -1);
  const updates = lines.map((line): RefUpdate => {
    const match = /^([0-9a-f]{40}) ([0-9a-f]{40}) (.+)$/.exec(line);
    if (match === null) throw codedError("INVALID_INPUT", "the push names a ref update that cannot be read");
    const [, old, next, name] = match;
    return { name: name!, old: old === zeroOid ? null : old!, new: next === zeroOid ? null : next! };
  });
  return { objectDir: objectDir!, updates };
}
