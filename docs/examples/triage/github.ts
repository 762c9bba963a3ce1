/** The few fields of GitHub's deliveries that triage reads. Everything else, and every other event, passes through unread. */
import { z } from "zod";

const person = z.object({ login: z.string() });
const label = z.object({ name: z.string() });

const common = {
  number: z.int(),
  title: z.string(),
  html_url: z.string(),
  state: z.enum(["open", "closed"]),
  // GitHub omits the author of a deleted account, and the labels of some old payloads.
  user: person.nullish(),
  labels: z.array(label).nullish(),
  body: z.string().nullish(),
  created_at: z.string(),
  updated_at: z.string(),
};

export const issueBody = z.object({
  action: z.string(),
  repository: z.object({ full_name: z.string() }),
  issue: z.object(common),
});

export const pullRequestBody = z.object({
  action: z.string(),
  repository: z.object({ full_name: z.string() }),
  pull_request: z.object({
    ...common,
    draft: z.boolean().nullish(),
    merged: z.boolean().nullish(),
    additions: z.int().nullish(),
    deletions: z.int().nullish(),
  }),
});

/** One issue or pull request as a delivery shows it. */
export interface Sighting {
  readonly kind: "issue" | "pull-request";
  readonly action: string;
  readonly repo: string;
  readonly number: number;
  readonly title: string;
  readonly body: string;
  readonly url: string;
  readonly author: string;
  readonly state: "open" | "closed" | "merged";
  readonly labels: readonly string[];
  readonly openedAt: string;
  readonly updatedAt: string;
  readonly isDraft: boolean;
  readonly changedLines: number;
}

/** What the delivery `name` shows, null when it is about neither an issue nor a pull request or lacks what triage reads. */
export function sighting(name: string, body: unknown): Sighting | null {
  if (name === "issues") {
    const parsed = issueBody.safeParse(body);
    if (!parsed.success) return null;
    const { action, repository, issue } = parsed.data;
    return {
      kind: "issue",
      action,
      repo: repository.full_name,
      ...fieldsOf(issue),
      state: issue.state,
      isDraft: false,
      changedLines: 0,
    };
  }
  if (name === "pull_request") {
    const parsed = pullRequestBody.safeParse(body);
    if (!parsed.success) return null;
    const { action, repository, pull_request: pull } = parsed.data;
    return {
      kind: "pull-request",
      action,
      repo: repository.full_name,
      ...fieldsOf(pull),
      state: pull.merged === true ? "merged" : pull.state,
      isDraft: pull.draft === true,
      changedLines: (pull.additions ?? 0) + (pull.deletions ?? 0),
    };
  }
  return null;
}

function fieldsOf(item: z.output<typeof issueBody>["issue"]) {
  return {
    number: item.number,
    title: item.title,
    body: item.body ?? "",
    url: item.html_url,
    author: item.user?.login ?? "ghost",
    labels: (item.labels ?? []).map(({ name }) => name),
    openedAt: item.created_at,
    updatedAt: item.updated_at,
  };
}
