import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { isCodedError } from "iterate/lib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildLimits, type SourceFile } from "./contract.js";
import { jobLimits, runBuildJob, type JobOptions } from "./job-process.js";
import { collectPlatformModules } from "./platform-modules.js";

let options: JobOptions;
let folder: string;
const secret = "PLANTED-7f3a9c";

beforeAll(async () => {
  options = { platform: await collectPlatformModules(), buildLimits, jobLimits };
  folder = mkdtempSync(join(tmpdir(), "planted-"));
  for (const [name, content] of Object.entries({
    "secret.js": `export default ${JSON.stringify(secret)}`,
    "secret.ts": `export default ${JSON.stringify(secret)}`,
    "secret.json": JSON.stringify({ secret }),
    "secret.txt": secret,
    "secret.wasm": secret,
    "secret.css": `/* ${secret} */`,
    "tsconfig.json": JSON.stringify({ compilerOptions: { jsx: "react", jsxFactory: secret.replace(/-/g, "_") } }),
    "secret.map": JSON.stringify({ version: 3, sources: [secret], sourcesContent: [secret], names: [secret], mappings: "AAAAA" }),
  })) {
    writeFileSync(join(folder, name), content);
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

const file = (path: string, data: string | Uint8Array, symlink = false): SourceFile => ({
  path,
  symlink,
  data: typeof data === "string" ? Buffer.from(data) : data,
});

const run = (
  files: SourceFile[],
  overrides: Partial<JobOptions> = {},
  deadlineMs = 20_000,
  signal = new AbortController().signal,
) => runBuildJob({ entries: ["a.ts"], files, deadlineMs, signal }, { ...options, ...overrides });

/** Everything a caller sees of a job, whether it succeeded or failed. */
async function everything(files: SourceFile[]): Promise<{ built: boolean; text: string }> {
  try {
    const output = await run(files);
    return {
      built: true,
      text:
        JSON.stringify(output.entries) +
        output.modules.map((module) => module.name + Buffer.from(module.data).toString()).join("\n"),
    };
  } catch (error) {
    if (!isCodedError(error) || error.code !== "BUILD_FAILED") throw error;
    return { built: false, text: error.message + JSON.stringify(error.data) };
  }
}

describe("a build job", () => {
  it("answers the same bytes as a second process", async () => {
    const files = [file("a.ts", `import { z } from "zod"; export class A { z = z.string() }`)];
    const [first, second] = [await run(files), await run(files)];
    expect(first.entries).toEqual([{ file: "a.ts", module: "a.js", classes: ["A"] }]);
    expect(second).toEqual(first);
  });

  it("refuses with file and line", async () => {
    await expect(run([file("a.ts", `import "left-pad"`)])).rejects.toMatchObject({
      code: "BUILD_FAILED",
      message: expect.stringMatching(/^a\.ts:1:8: the package "left-pad"/),
      data: { problems: [{ file: "a.ts", line: 1 }] },
    });
  });
});

describe("a secret on the worker's disk never comes out, imported by", () => {
  const up = () => relative("/", folder);
  it.each<[string, boolean, () => SourceFile[]]>([
    [
      "a symbolic link",
      false,
      () => [file("a.ts", `import s from "./s.js"; export default s`), file("s.js", join(folder, "secret.js"), true)],
    ],
    ["a linked folder", false, () => [file("a.ts", `import s from "./s/secret.js"; export default s`), file("s", folder, true)]],
    ["a linked entry", false, () => [file("a.ts", join(folder, "secret.ts"), true)]],
    [
      "an absolute path",
      false,
      () => [file("a.ts", `import s from ${JSON.stringify(join(folder, "secret.js"))}; export default s`)],
    ],
    ["..", false, () => [file("a.ts", `import s from "../../../../../..${folder}/secret.js"; export default s`)]],
    ["a path from the root", false, () => [file("a.ts", `import s from "./${up()}/secret.js"; export default s`)]],
    [
      "json",
      false,
      () => [file("a.ts", `import s from ${JSON.stringify(join(folder, "secret.json"))} with { type: "json" }; export default s`)],
    ],
    ["text", false, () => [file("a.ts", `import s from "../${up()}/secret.txt"; export default s`)]],
    ["wasm", false, () => [file("a.ts", `import s from "../${up()}/secret.wasm"; export default s`)]],
    [
      "a file URL",
      false,
      () => [file("a.ts", `import s from ${JSON.stringify(pathToFileURL(join(folder, "secret.js")).href)}; export default s`)],
    ],
    ["require", false, () => [file("a.ts", `export default require(${JSON.stringify(join(folder, "secret.json"))})`)]],
    [
      "a pattern",
      false,
      () => [file("a.ts", `const n = globalThis.n; export default import("../../../../../..${folder}/" + n + ".js")`)],
    ],
    [
      "a pattern from the root",
      false,
      () => [file("a.ts", `const n = globalThis.n; export default import("./${up()}/" + n + ".js")`)],
    ],
    [
      "a required pattern",
      false,
      () => [file("a.ts", `const n = globalThis.n; export default require("../../../../../..${folder}/" + n + ".json")`)],
    ],
    [
      "tsconfig extends",
      true,
      () => [
        file("a.tsx", ""),
        file("a.ts", `import "./b.tsx"`),
        file("b.tsx", `const React = globalThis.React; export default <a />`),
        file("tsconfig.json", JSON.stringify({ extends: join(folder, "tsconfig.json") })),
      ],
    ],
    [
      "css",
      true,
      () => [
        file("a.ts", `import s from "./s.css"; export default s`),
        file(
          "s.css",
          `@import url(${pathToFileURL(join(folder, "secret.css")).href}); a { background: url(${join(folder, "secret.txt")}) }`,
        ),
      ],
    ],
    [
      "a source map's file URL",
      true,
      () => [file("a.ts", `export const a = 1;\n//# sourceMappingURL=${pathToFileURL(join(folder, "secret.map")).href}`)],
    ],
    [
      "a source map's path",
      true,
      () => [file("a.ts", `export const a = 1;\n/*# sourceMappingURL=${join(folder, "secret.map")} */`)],
    ],
    [
      "new URL",
      true,
      () => [file("a.ts", `export default new URL(${JSON.stringify(join(folder, "secret.txt"))}, import.meta.url)`)],
    ],
    [
      "a JSX pragma",
      false,
      () => [
        file("a.ts", `import "./b.tsx"`),
        file("b.tsx", `/** @jsxRuntime automatic @jsxImportSource ${folder}/secret.js */ export default <a />`),
      ],
    ],
  ])("%s", async (_, builds, files) => {
    const { built, text } = await everything(files());
    expect(text).not.toContain(secret);
    expect(text).not.toContain(secret.replace(/-/g, "_"));
    expect(built).toBe(builds);
  });
});

describe("a hostile repo costs bounded time and memory:", () => {
  it("two thousand files that import each other in a circle", async () => {
    const files = Array.from({ length: 1_999 }, (_, at) =>
      file(`m${at}.ts`, `import "./m${(at + 1) % 1_999}.js"; export const v${at} = ${at};`),
    );
    const output = await run([...files, file("a.ts", `import "./m0.js"; export class A {}`)]);
    expect(output.entries[0]!.classes).toEqual(["A"]);
  });

  it("JSON nested a million times", async () => {
    await expect(
      run([file("a.ts", `import j from "./j.json"; export default j`), file("j.json", "[".repeat(2_000_000))]),
    ).rejects.toMatchObject({ code: "BUILD_FAILED" });
  });

  it("JSON that grows in memory", async () => {
    const result = await run([
      file("a.ts", `import j from "./j.json"; export default j`),
      file("j.json", `[${"{},".repeat(1_300_000)}0]`),
    ]).catch((error: unknown) => error);
    expect(isCodedError(result) ? result.code : "built").toMatch(/^(BUILD_FAILED|built)$/);
  });

  it("names that differ only in case", async () => {
    const output = await run([
      file("a.ts", `import "./B.js"; import "./b.js"`),
      file("B.ts", `console.log("upper")`),
      file("b.ts", `console.log("lower")`),
    ]);
    const code = Buffer.from(output.modules[0]!.data).toString();
    expect(code).toContain("upper");
    expect(code).toContain("lower");
  });

  it("a job that takes longer than its deadline is ended, and says so", async () => {
    await expect(run([file("a.ts", `import { z } from "zod"; export default z`)], {}, 5)).rejects.toMatchObject({
      code: "BUILD_FAILED",
      message: expect.stringMatching(/took longer than 5 ms/),
    });
  });

  it("a job that uses more CPU than it may is ended, and says so", async () => {
    const files = [
      file("a.ts", `import j from "./j.ts"; export default j`),
      file("j.ts", `export default [${"[1,{a:2}],".repeat(380_000)}]`),
    ];
    await expect(run(files, { jobLimits: { ...jobLimits, cpuS: 1 } })).rejects.toMatchObject({ code: "BUILD_FAILED" });
  });

  it("a caller that goes away takes the job with it", async () => {
    const controller = new AbortController();
    const job = run([file("a.ts", `import { z } from "zod"; export default z`)], {}, 20_000, controller.signal);
    controller.abort();
    await expect(job).rejects.toMatchObject({ code: "CANCELLED" });
  });
});
