/** What the pusher reads when a push was accepted: where each branch is now, what follows from it, and where to see how that ends. */
import { branchPrefix, mainBranch, type RefUpdate, type RepoName } from "./contract.js";

/** The repository whose main branch is built and published. */
const configPath = "/repos/config";
const shownOid = 12;
const maxLines = 10;

/** Lines of text, without line breaks. */
export function receiptOf({ owner, path }: RepoName, updates: readonly RefUpdate[]): string[] {
  const lines = updates.flatMap(({ name, new: oid }) => {
    const branch = name.slice(branchPrefix.length);
    if (oid === null) return [`${branch} is removed.`];
    const now = `${branch} is now ${oid.slice(0, shownOid)}`;
    if (path !== configPath) return [`${now}.`];
    if (branch !== mainBranch) return [`${now}; it is stored and not built: only ${mainBranch} is.`];
    return [
      `${now}; it is built now, and published when it builds. See how that ends:`,
      `  iterate events tail --project ${owner} --after 0`,
    ];
  });
  return lines.length <= maxLines ? lines : [...lines.slice(0, maxLines - 1), `and ${lines.length - maxLines + 1} lines more`];
}
