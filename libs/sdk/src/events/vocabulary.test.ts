import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { eventCatalog, renamedTypes } from "./index.js";
import { eventType, platformPrefix, type EventTypeOptions } from "./event-type.js";
import { keptNames, typeNameProblem } from "./naming.js";
import type { Rename } from "./renamed.js";
import { collectCatalog, vocabularyProblems } from "./vocabulary.js";

const empty = z.object({});
const declare = (name: string, payload: z.ZodType = empty, options: Partial<EventTypeOptions> = {}) =>
  eventType(name, payload, { description: "", writer: "anyone", ...options });
const catalogOf = (...declarations: ReturnType<typeof declare>[]) =>
  new Map(declarations.map((declaration) => [declaration.type, declaration]));

describe("the catalog of the platform", () => {
  it("breaks no rule", () => {
    expect(vocabularyProblems(eventCatalog, renamedTypes)).toEqual([]);
  });

  it("is collected from the contract file of every namespace", () => {
    const machinery = [
      "event-type",
      "expression-field",
      "format",
      "index",
      "naming",
      "nearest",
      "renamed",
      "route-payload",
      "rule-payload",
      "url-pattern",
      "vocabulary",
    ];
    const files = readdirSync(import.meta.dirname)
      .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
      .map((file) => file.slice(0, -".ts".length));
    const namespaces = new Set([...eventCatalog.keys()].map((type) => type.slice(platformPrefix.length).split("/")[0]));
    expect([...namespaces].sort()).toEqual(files.filter((file) => !machinery.includes(file)).sort());
  });

  it("keeps no name against the rules that nothing has", () => {
    for (const name of keptNames.keys()) expect(eventCatalog.has(platformPrefix + name)).toBe(true);
  });
});

describe("a name", () => {
  it.each([
    "itx/created",
    "itx/woken",
    "itx/child-created",
    "itx/schedule-set",
    "itx/subscription-delivery-halted",
    "itx/run-requested",
    "project/worker-update-failed",
    "repo/origin-set",
    "email/sent",
    "secret/lent",
    "secret/used",
    "secret/lend-revoked",
    "agent/llm-request-settled",
    "voice-agent/call-ended",
    "voice-agent/mic-frame",
    "account/personal-access-token-minted",
  ])("like %s is taken", (name) => {
    expect(typeNameProblem(platformPrefix + name)).toBeNull();
  });

  it.each([
    ["one segment", "created", "<namespace>/<event>"],
    ["three segments", "itx/run/settled", "<namespace>/<event>"],
    ["capitals", "itx/runSettled", "<namespace>/<event>"],
    ["a blank segment", "/created", "<namespace>/<event>"],
    ["a dash at the end", "itx/created-", "<namespace>/<event>"],
    ["an underscore", "itx/run_settled", "<namespace>/<event>"],
    ["a command", "project/create", "past tense"],
    ["a noun", "itx/alarm-trace", "past tense"],
    ["a noun that ends like a verb", "itx/feed", "past tense"],
    ["a plan", "itx/run-settling", "past tense"],
  ])("with %s is refused", (_what, name, words) => {
    expect(typeNameProblem(platformPrefix + name)).toContain(words);
  });

  it.each([
    ["a stored frame", "voice-agent/mic-frame", null, "never stored"],
    ["a frame named as a fact", "voice-agent/mic-heard", "frame", "<stream>-frame"],
    ["a fact named as a frame", "voice-agent/mic-frame", "fact", "never stored"],
    ["an ephemeral fact named as a noun", "itx/alarm-trace", "fact", "past tense"],
    ["a stored noun", "voice-agent/keepalive", null, "past tense"],
  ] as const)("of %s is refused", (_what, name, ephemeral, words) => {
    expect(typeNameProblem(platformPrefix + name, ephemeral)).toContain(words);
  });

  it.each([
    ["chrome/navigated", "fact"],
    ["voice-agent/mic-frame", "frame"],
    ["voice-agent/keepalive", "heartbeat"],
    ["itx/alarm-trace", "diagnostic"],
  ] as const)("%s may be that of an ephemeral %s", (name, ephemeral) => {
    expect(typeNameProblem(platformPrefix + name, ephemeral)).toBeNull();
  });
});

describe("the checker finds", () => {
  const settled = z.object({ requestOffset: z.int() });
  it.each([
    ["a name against the rules", [declare("project/create")], "past tense"],
    ["an ask without an answer", [declare("project/create-requested")], "nobody answers"],
    ["an ask that only fails", [declare("project/create-requested"), declare("project/create-failed")], "nobody answers"],
    ["an ask answered by nothing known", [declare("a/b-requested", empty, { answeredBy: ["a/c-added"] })], "not in the catalog"],
    ["a settlement that names no request", [declare("repo/publication-settled")], "requestOffset"],
    ["a configuration without a null form", [declare("itx/ingress-configured", z.object({ target: z.string() }))], "null"],
    ["a type that joins a family by accident", [declare("itx/run-started")], "itx/run-*"],
    ["a type that claims a family", [declare("itx/paused", empty, { family: "itx/run-" })], "which its name does not"],
    ["a control event that is not stored", [declare("itx/moved", empty, { control: true, ephemeral: "fact" })], "must be stored"],
  ])("%s", (_what, declarations, words) => {
    const problems = vocabularyProblems(catalogOf(...declarations), new Map());
    expect(problems).toEqual([{ type: declarations[0]!.type, problem: expect.stringContaining(words) as string }]);
  });

  it.each([
    ["an ask that is settled", [declare("a/b-requested"), declare("a/b-settled", settled)]],
    ["an ask whose verb is done", [declare("a/hostname-remove-requested"), declare("a/hostname-removed")]],
    ["an ask with a deed of its own name", [declare("a/copy-requested"), declare("a/copied")]],
    ["an ask another fact answers", [declare("a/b-requested", empty, { answeredBy: ["a/c-added"] }), declare("a/c-added")]],
    ["a row that null clears", [declare("a/row-configured", z.object({ target: z.string().nullable() }))]],
    ["a partial configuration", [declare("a/configured", z.object({ model: z.string().optional() }))]],
    ["a member of a family", [declare("itx/run-started", empty, { family: "itx/run-" })]],
  ])("nothing against %s", (_what, declarations) => {
    expect(vocabularyProblems(catalogOf(...declarations), new Map())).toEqual([]);
  });

  const known = catalogOf(declare("itx/schedule-set", empty, { family: "itx/schedule-" }));
  const [current] = known.keys();
  const migration = "services/context/migrations/009-rename.sql";
  it.each([
    ["a renamed type that is still there", [current!, { to: current!, migration }], "still in the catalog"],
    ["a rename to nothing", ["a/old", { to: "a/none", migration }], "not in the catalog"],
    ["a rename without a migration", ["a/old", { to: current!, migration: "" }], "without a migration"],
  ] as const satisfies readonly [string, readonly [string, Rename], string][])("%s", (_what, rename, words) => {
    expect(vocabularyProblems(known, new Map<string, Rename>([rename])).map(({ problem }) => problem)).toEqual([
      expect.stringContaining(words) as string,
    ]);
  });

  it("nothing against a rename that ships with its migration", () => {
    expect(vocabularyProblems(known, new Map([["a/old", { to: current!, migration }]]))).toEqual([]);
  });
});

describe("collecting", () => {
  it("refuses two contracts that define one type", () => {
    const files = { itx: { one: declare("itx/created"), other: declare("itx/created") } };
    expect(() => collectCatalog(files)).toThrow("two contracts define events.iterate.com/itx/created");
  });

  it("refuses a type in the contract file of another namespace", () => {
    expect(() => collectCatalog({ itx: { one: declare("project/created") } })).toThrow('the contract of "itx" defines');
  });
});
