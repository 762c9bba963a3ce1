import { describe, expect, it } from "vitest";
import { anchorsOf, linksOf, stepsOf } from "./page.js";

const fence = "```";
const page = `# A page

${fence}sh run
echo one
${fence}

${fence}text expect
one
${fence}

${fence}ts file a/b.ts
export {};
${fence}

${fence}sh
echo shown [only](nowhere.md)
${fence}
`;

describe("the steps of a page", () => {
  it("are its commands, with what they print, and its files, in order", () => {
    expect(stepsOf(page)).toEqual([
      { kind: "run", line: 3, script: "echo one\n", expected: ["one"] },
      { kind: "file", line: 11, path: "a/b.ts", content: "export {};\n" },
    ]);
  });

  it.each([
    ["a fence that does not end", `${fence}sh run\necho`, "line 1: the fence does not end"],
    ["an expectation of no command", `${fence}text expect\none\n${fence}`, "line 1: `text expect` follows no `sh run`"],
    ["an expectation that is not next to its command", `${page}${fence}text expect\none\n${fence}`, "follows no `sh run`"],
    ["an empty expectation", `${fence}sh run\ntrue\n${fence}\n${fence}text expect\n\n${fence}`, "line 4: nothing is expected"],
    ["a misspelt step", `${fence}bash run\ntrue\n${fence}`, "no step is called `bash run`"],
  ])("are refused with %s", (_name, text, message) => {
    expect(() => stepsOf(text)).toThrow(message);
  });
});

it("links are found with their lines, but not in code", () => {
  expect(linksOf(`${page}\nsee [this](x.md#y) and \`[that](z.md)\` ![image](i.svg)`)).toEqual([
    { line: 19, target: "x.md#y" },
    { line: 19, target: "i.svg" },
  ]);
});

it("headings are reached as GitHub names them", () => {
  expect([...anchorsOf("# A page\n\n## `emit`, or append?\n")]).toEqual(["a-page", "emit-or-append"]);
});
