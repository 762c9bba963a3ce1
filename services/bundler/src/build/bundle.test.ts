import { isCodedError } from "iterate/lib";
import { beforeAll, describe, expect, it } from "vitest";
import { bundle } from "./bundle.js";
import { buildLimits, type BuildLimits, type BuildOutput, type SourceFile } from "./contract.js";
import { bundleDigest } from "./digest.js";
import { collectPlatformModules, type PlatformModules } from "./platform-modules.js";

let platform: PlatformModules;
beforeAll(async () => void (platform = await collectPlatformModules()));

type Sources = Readonly<Record<string, string | { readonly link: string }>>;

const filesOf = (sources: Sources): SourceFile[] =>
  Object.entries(sources).map(([path, source]) =>
    typeof source === "string"
      ? { path, symlink: false, data: Buffer.from(source) }
      : { path, symlink: true, data: Buffer.from(source.link) },
  );

const build = (entries: string[], sources: Sources, limits: BuildLimits = buildLimits) =>
  bundle({ entries, files: filesOf(sources), platform, limits });

async function refusal(sources: Sources, limits?: BuildLimits): Promise<string> {
  const error = await build(["a.ts"], sources, limits).catch((thrown: unknown) => thrown);
  if (isCodedError(error) && error.code === "BUILD_FAILED") return error.message;
  throw new Error("was built", { cause: error });
}

const text = (output: BuildOutput, name: string) =>
  Buffer.from(output.modules.find((module) => module.name === name)!.data).toString();

describe("a bundle", () => {
  it("is one self-contained module per entry, with a source map beside it", async () => {
    const output = await build(["a.ts", "lib/b.ts"], {
      "a.ts": `import { b } from "./lib/b.js";\nexport class A { b: number = b }\nexport const Lower = 1;`,
      "lib/b.ts": "export const b: number = 2; export default class B {}",
    });
    expect(output.entries).toEqual([
      { file: "a.ts", module: "a.js", classes: ["A"] },
      { file: "lib/b.ts", module: "lib/b.js", classes: [] },
    ]);
    expect(output.modules.map(({ name, kind }) => [name, kind])).toEqual([
      ["a.js", "es-module"],
      ["a.js.map", "json"],
      ["lib/b.js", "es-module"],
      ["lib/b.js.map", "json"],
    ]);
    expect(text(output, "a.js")).not.toMatch(/\bimport\b/);
    expect(JSON.parse(text(output, "a.js.map"))).toMatchObject({ version: 3, sources: ["project:lib/b.ts", "project:a.ts"] });
  });

  it("takes JSX, decorators, JSON and text, and keeps wasm as a module of its own", async () => {
    const sources = {
      "a.ts":
        `import page from "./page.jsx"; import config from "./config.json"; import notes from "./notes.md"; import add from "../deep/../deep/add.wasm";\nfunction mark(value, context) {}\nexport class A { @mark page = page; config = config; notes = notes; add = add }`.replace(
          "../deep/../",
          "./deep/../",
        ),
      "page.jsx": `/** @jsx h */ const h = (tag) => tag; export default <main />;`,
      "config.json": `{"answer": 42}`,
      "notes.md": "# Planted notes",
      "deep/add.wasm": "\0asm bytes",
      "deep/b.ts": `import add from "./add.wasm"; export default add;`,
    };
    const output = await build(["a.ts", "deep/b.ts"], sources);
    const wasm = output.modules.filter((module) => module.kind === "wasm");
    expect(wasm).toHaveLength(1);
    expect(Buffer.from(wasm[0]!.data).toString()).toBe("\0asm bytes");
    expect(text(output, "a.js")).toContain(`from "./${wasm[0]!.name}"`);
    expect(text(output, "deep/b.js")).toContain(`from "../${wasm[0]!.name}"`);
    expect(text(output, "a.js")).toContain("# Planted notes");
    expect(text(output, "a.js")).toMatch(/answer: 42/);
    expect(output.entries[0]!.classes).toEqual(["A"]);
  });

  it("holds the platform's iterate and zod, told to generate no code, and leaves the runtime's modules to the runtime", async () => {
    const output = await build(["a.ts"], {
      "a.ts": `import { z } from "zod"; import { codedError } from "iterate/lib"; import { AsyncLocalStorage } from "node:async_hooks"; import { WorkerEntrypoint } from "cloudflare:workers";\nexport class A extends WorkerEntrypoint { s = new AsyncLocalStorage(); z = z.string(); e = codedError }`,
    });
    const code = text(output, "a.js");
    expect(code).toMatch(/config\w*\(\{ jitless: true \}\)/);
    expect(code).toMatch(/CodedError = class extends Error/);
    expect([...code.matchAll(/^import .* from "(.*)";$/gm)].map(([, from]) => from).sort()).toEqual([
      "cloudflare:workers",
      "node:async_hooks",
    ]);
  });

  it("has the same bytes each time, whatever the order of the files", async () => {
    const sources = {
      "a.ts": `import { z } from "zod"; import "./b"; export const A = z.object({});`,
      "b.ts": "console.log(1)",
      "c.md": "",
    };
    const [first, second] = [
      await build(["a.ts"], sources),
      await bundle({ entries: ["a.ts"], files: filesOf(sources).reverse(), platform, limits: buildLimits }),
    ];
    expect(bundleDigest("a.js", second.entries, second.modules)).toBe(bundleDigest("a.js", first.entries, first.modules));
    expect((await collectPlatformModules()).digest).toBe(platform.digest);
  });

  it("survives circular imports", async () => {
    const output = await build(["a.ts"], {
      "a.ts": `export * from "./b"; export class A {}`,
      "b.ts": `export * from "./a"; export class B {}`,
    });
    expect([...output.entries[0]!.classes].sort()).toEqual(["A", "B"]);
  });
});

describe("a build is refused, by file and line, for", () => {
  it.each<[string, Sources, RegExp]>([
    ["a syntax error", { "a.ts": "export const a = 1;\nexport const b = ;" }, /^a\.ts:2:18: Unexpected ";"/],
    ["an unknown package", { "a.ts": `\nimport "left-pad";` }, /^a\.ts:2:8: the package "left-pad" is not available/],
    ["a computed import", { "a.ts": "const x = globalThis.q;\nimport(x);" }, /^a\.ts:2:1: a computed import/],
    ["a computed require", { "a.ts": "const x = globalThis.q;\nrequire(x);" }, /^a\.ts:2:1: a computed import/],
    ["a require in disguise", { "a.ts": "const r = require; r('fs')" }, /a computed import/],
    [
      "an import by pattern",
      { "a.ts": 'const x = globalThis.q;\nimport("./lib/" + x + ".ts");', "lib/b.ts": "" },
      /^a\.ts:2:8: a computed import/,
    ],
    ["a required builtin", { "a.ts": `require("node:crypto")` }, /can only be imported, not required/],
    [
      "a missing export",
      { "a.ts": `import { b } from "./b"; b()`, "b.ts": "export const c = 1" },
      /No matching export in "project:b\.ts" for import "b"/,
    ],
    ["a file of an unknown kind", { "a.ts": `import "./b.exe"`, "b.exe": "" }, /files ending in "\.exe" cannot be built/],
    [
      "an import of an unknown type",
      { "a.ts": `import b from "./b.ts" with { type: "bytes" }; b`, "b.ts": "" },
      /imports with type "bytes" cannot be built/,
    ],
    ["an entry that is a symbolic link", { "a.ts": { link: "/etc/passwd" } }, /^a\.ts: is not a regular file/],
  ])("%s", async (_, sources, message) => {
    expect(await refusal(sources)).toMatch(message);
  });

  it("two entries that would have one name", async () => {
    await expect(build(["a.ts", "a.mts"], { "a.ts": "", "a.mts": "" })).rejects.toThrow(
      /a\.mts: would be built as a\.js, and so would a\.ts/,
    );
  });

  it("more output than the limit, and not for exactly the limit", async () => {
    const sources = { "a.ts": `import b from "./b.txt"; export default b;`, "b.txt": "x".repeat(1000) };
    const size = text(await build(["a.ts"], sources), "a.js").length;
    await expect(build(["a.ts"], sources, { ...buildLimits, maxModuleBytes: size })).resolves.toBeDefined();
    expect(await refusal(sources, { ...buildLimits, maxModuleBytes: size - 1 })).toMatch(
      /makes the module a\.js of \d+ bytes; at most/,
    );
    expect(await refusal(sources, { ...buildLimits, maxOutputBytes: size })).toMatch(/more than \d+ bytes together/);
  });
});
