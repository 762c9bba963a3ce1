import { isCodedError } from "iterate/lib";
import { describe, expect, it } from "vitest";
import { manifestEntries, maxProcessors, parseManifest } from "./manifest.js";

const files = new Set(["worker.ts", "triage.ts", "lib/deep.ts"]);
const parse = (text: string | undefined) => parseManifest(text, (path) => files.has(path));

function refusal(text: string | undefined): string {
  try {
    parse(text);
  } catch (error) {
    if (isCodedError(error) && error.code === "BUILD_FAILED") return error.message;
    throw error;
  }
  throw new Error("was accepted");
}

const triage = '[processors.triage]\nmodule = "triage.ts"\nclass = "TriageDurableObject"\ncontext = "/integrations/github/main"\n';

describe("iterate.toml", () => {
  it("declares the main module and processors", () => {
    expect(parse(`[project]\nmain = "lib/deep.ts"\n\n${triage}`)).toEqual({
      main: "lib/deep.ts",
      processors: [{ name: "triage", file: "triage.ts", className: "TriageDurableObject", context: "/integrations/github/main" }],
    });
  });

  it("takes worker.ts as the main module when none is named, and none when there is no such file", () => {
    expect(parse("").main).toBe("worker.ts");
    expect(parseManifest("", () => false).main).toBeNull();
  });

  it("makes each named file one entry, the main module first", () => {
    const second = triage.replace("[processors.triage]", "[processors.again]");
    expect(manifestEntries(parse(`${triage}${second}`))).toEqual(["worker.ts", "triage.ts"]);
  });

  it.each([
    ["no file", undefined, /iterate\.toml: the repo has no iterate\.toml at its root; add one, e\.g\./],
    ["not TOML", "[project\nmain", /iterate\.toml:1:\d+: is not TOML/],
    [
      "an unknown table",
      "[projects]\n",
      /iterate\.toml:1: "projects" is not known here; known: \[project\] and \[processors\.<name>\]/,
    ],
    ["an unknown key", '[project]\nmain = "worker.ts"\nmian = 1', /iterate\.toml:3: "mian" is not known here; known: main/],
    [
      "a missing key",
      '\n[processors.triage]\nmodule = "triage.ts"\ncontext = "/x"',
      /iterate\.toml:2: \[processors\.triage\] needs class = "…"/,
    ],
    ["a wrong type", "[project]\nmain = 7", /iterate\.toml:2: main invalid input: expected string/],
    [
      "a relative context",
      triage.replace('"/integrations', '"integrations'),
      /iterate\.toml:4: context must be an absolute context path/,
    ],
    ["a file that is not there", '[project]\nmain = "wroker.ts"', /iterate\.toml:2: the commit has no file "wroker\.ts"/],
    [
      "a module that is not there",
      triage.replace("triage.ts", "tirage.ts"),
      /iterate\.toml:2: the commit has no file "tirage\.ts"/,
    ],
    ["a path with dots", '[project]\nmain = "../worker.ts"', /iterate\.toml:2: main must be a file of the repo/],
    ["an absolute path", '[project]\nmain = "/etc/passwd.ts"', /iterate\.toml:2: main must be a file of the repo/],
    ["a file that is no code", '[project]\nmain = "README.md"', /iterate\.toml:2: main must be a TypeScript or JavaScript file/],
    [
      "a class that is no name",
      triage.replace("TriageDurableObject", "a b"),
      /iterate\.toml:3: class must be the name of an exported class/,
    ],
    [
      "a reserved name",
      triage.replace("processors.triage", "processors.publication"),
      /iterate\.toml:1: the name "publication" is reserved/,
    ],
    ["a name with a dot", triage.replace("processors.triage", 'processors."a b"'), /iterate\.toml:1: the name "a b" may only have/],
  ])("refuses %s, naming the place", (_, text, message) => {
    expect(refusal(text)).toMatch(message);
  });

  it("takes exactly as many processors as it says", () => {
    const many = (count: number) =>
      Array.from({ length: count }, (_, at) => triage.replace("processors.triage", `processors.p${at}`)).join("\n");
    expect(parse(many(maxProcessors)).processors).toHaveLength(maxProcessors);
    expect(refusal(many(maxProcessors + 1))).toMatch(/declares 101 processors; at most 100/);
  });
});
