import { ProcessorEngine } from "iterate/stream/processor";
import { memoryStorage, memoryStream, reduceProcessor, settle } from "iterate/stream/test-support";
import { describe, expect, it } from "vitest";
import { labelledType } from "./contract.js";
import { boardPage } from "./page.js";
import { labelsFor, type NewItem } from "./rules.js";
import { TriageProcessor, type Board } from "./triage.js";

let deliveries = 0;

function delivered(name: string, body: unknown) {
  return { type: "events.iterate.com/github/webhook-received", payload: { delivery: { id: `d${(deliveries += 1)}`, name }, body } };
}

const issue = (action: string, fields: Record<string, unknown> = {}) =>
  delivered("issues", {
    action,
    repository: { full_name: "ada/engine" },
    issue: {
      number: 7,
      title: "It crashes on start",
      html_url: "https://github.com/ada/engine/issues/7",
      state: "open",
      user: { login: "grace" },
      labels: [],
      body: "With an exception.",
      created_at: "2030-01-01T00:00:00Z",
      updated_at: "2030-01-01T00:00:00Z",
      ...fields,
    },
  });

const pull = (action: string, fields: Record<string, unknown> = {}) =>
  delivered("pull_request", {
    action,
    repository: { full_name: "ada/engine" },
    pull_request: {
      number: 8,
      title: "Fix the docs",
      html_url: "https://github.com/ada/engine/pull/8",
      state: "open",
      user: null,
      body: null,
      created_at: "2030-01-02T00:00:00Z",
      updated_at: "2030-01-02T00:00:00Z",
      ...fields,
    },
  });

const board = (...events: ReturnType<typeof delivered>[]): Board => reduceProcessor(new TriageProcessor(), events);

describe("the board", () => {
  it("counts every delivery by its name, also of events it does not read", () => {
    expect(board(issue("opened"), delivered("ping", { zen: "…" }), delivered("issues", "not even an object"))).toMatchObject({
      deliveries: 3,
      byName: { issues: 2, ping: 1 },
    });
  });

  it("follows an issue from opened to closed, with its labels", () => {
    const state = board(
      issue("opened"),
      issue("labeled", { labels: [{ name: "bug" }], updated_at: "2030-01-01T01:00:00Z" }),
      issue("closed", { state: "closed", labels: [{ name: "bug" }], updated_at: "2030-01-01T02:00:00Z" }),
    );
    expect(state.items["ada/engine#7"]).toMatchObject({
      kind: "issue",
      state: "closed",
      labels: ["bug"],
      author: "grace",
      title: "It crashes on start",
    });
  });

  it("tells a merged pull request from a closed one", () => {
    expect(board(pull("closed", { state: "closed", merged: true })).items["ada/engine#8"]?.state).toBe("merged");
    expect(board(pull("closed", { state: "closed", merged: false })).items["ada/engine#8"]?.state).toBe("closed");
  });

  it("keeps the newer of two deliveries that came out of order", () => {
    const state = board(
      issue("closed", { state: "closed", updated_at: "2030-01-01T02:00:00Z" }),
      issue("labeled", { updated_at: "2030-01-01T01:00:00Z" }),
    );
    expect(state.items["ada/engine#7"]?.state).toBe("closed");
  });

  it("forgets what was deleted", () => {
    expect(board(issue("opened"), issue("deleted")).items).toEqual({});
  });

  it("keeps at most 1,000 items, the finished ones going first", () => {
    const many = Array.from({ length: 1001 }, (_, at) => issue("opened", { number: at + 1, state: at === 5 ? "closed" : "open" }));
    const { items } = board(...many);
    expect(Object.keys(items)).toHaveLength(1000);
    expect(items["ada/engine#6"]).toBeUndefined();
  });
});

describe("a new issue or pull request", () => {
  async function run(...events: ReturnType<typeof delivered>[]) {
    const stream = memoryStream(events);
    const storage = memoryStorage<Board>();
    const { state } = await settle(new ProcessorEngine(new TriageProcessor(), { stream, storage }), stream, storage);
    return { state, labelled: stream.events.filter(({ type }) => type === labelledType).map(({ payload }) => payload) };
  }

  it("is labelled once, and the board shows it", async () => {
    const { state, labelled } = await run(issue("opened"), issue("labeled", { updated_at: "2030-01-01T01:00:00Z" }));
    expect(labelled).toEqual([
      {
        item: "ada/engine#7",
        kind: "issue",
        title: "It crashes on start",
        url: "https://github.com/ada/engine/issues/7",
        labels: [{ label: "bug", reason: "it speaks of something broken" }],
      },
    ]);
    expect(state.items["ada/engine#7"]?.suggested).toEqual(["bug"]);
  });

  it("is left alone when no rule applies", async () => {
    expect((await run(issue("opened", { title: "Add a wheel", body: "It should roll." }))).labelled).toEqual([]);
  });

  const item: NewItem = { kind: "issue", title: "A title", body: "A body", isDraft: false, changedLines: 0 };
  it.each<[string, Partial<NewItem>, string[]]>([
    ["a vulnerability", { body: "see CVE-2030-1" }, ["security"]],
    ["a question", { title: "Does it fly?" }, ["question"]],
    ["a typo in the readme", { title: "Typo in README" }, ["docs"]],
    ["nothing said", { body: " " }, ["needs-description"]],
    ["a large draft", { kind: "pull-request", isDraft: true, changedLines: 501 }, ["draft", "large"]],
    ["500 lines", { kind: "pull-request", changedLines: 500 }, []],
  ])("of %s gets its labels", (_, fields, labels) => {
    expect(labelsFor({ ...item, ...fields }).map(({ label }) => label)).toEqual(labels);
  });
});

describe("the page", () => {
  it("escapes what strangers wrote and links only to the web", () => {
    const page = boardPage(
      board(issue("opened", { title: `<script>alert("x")</script>`, html_url: "javascript:alert(1)" })),
      "/projects/demo",
    );
    expect(page).toContain("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;");
    expect(page).not.toContain("<script>");
    expect(page).not.toContain('href="javascript:');
    expect(page).toContain('href="/projects/demo/state.json"');
  });
});
