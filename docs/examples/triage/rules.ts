/** Which labels a new issue or pull request gets. Plain data and one pure function: change it to your own rules. */

export interface Rule {
  readonly label: string;
  /** Said on the event, so that a person understands the label. */
  readonly reason: string;
  readonly applies: (item: NewItem) => boolean;
}

export interface NewItem {
  readonly kind: "issue" | "pull-request";
  readonly title: string;
  readonly body: string;
  readonly isDraft: boolean;
  /** Lines added and removed; 0 for an issue. */
  readonly changedLines: number;
}

const says =
  (pattern: RegExp) =>
  (item: NewItem): boolean =>
    pattern.test(`${item.title}\n${item.body}`);

export const rules: readonly Rule[] = [
  { label: "security", reason: "it speaks of a vulnerability", applies: says(/\b(vulnerab|CVE-\d|exploit|XSS|injection)/i) },
  {
    label: "bug",
    reason: "it speaks of something broken",
    applies: says(/\b(bugs?|crash(es|ed)?|broken|regression|exception|spelling error)\b/i),
  },
  { label: "docs", reason: "it speaks of documentation", applies: says(/\b(docs?|documentation|readme|typos?)\b/i) },
  {
    label: "question",
    reason: "its title asks something",
    applies: (item) => item.kind === "issue" && item.title.trim().endsWith("?"),
  },
  { label: "needs-description", reason: "it says nothing beyond its title", applies: (item) => item.body.trim() === "" },
  { label: "draft", reason: "its author is not done", applies: (item) => item.isDraft },
  { label: "large", reason: "it changes more than 500 lines", applies: (item) => item.changedLines > 500 },
];

/** The rules that apply, in their order. */
export function labelsFor(item: NewItem): { label: string; reason: string }[] {
  return rules.filter((rule) => rule.applies(item)).map(({ label, reason }) => ({ label, reason }));
}
