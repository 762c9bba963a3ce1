/** The README's TypeScript compiles against this package, under the strictness a project starts with. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { expect, it } from "vitest";

const folder = import.meta.dirname;
const readme = readFileSync(join(folder, "..", "README.md"), "utf8");
const blocks = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code ?? "");
// The second block tests the processor of the first.
const [processor = "", test = "", ...others] = blocks;

it("holds TypeScript that compiles", () => {
  expect(blocks).toHaveLength(4);
  const sources = new Map([`${processor}${test}`, ...others].map((code, index) => [join(folder, `readme-${index}.ts`), code]));
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    noImplicitOverride: true,
    target: ts.ScriptTarget.ES2024,
    lib: ["lib.es2024.d.ts", "lib.esnext.disposable.d.ts"],
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    customConditions: ["iterate-source"],
    types: ["node"],
  };
  const host = ts.createCompilerHost(options);
  const fileExists = host.fileExists.bind(host);
  const getSourceFile = host.getSourceFile.bind(host);
  host.fileExists = (path) => sources.has(path) || fileExists(path);
  host.getSourceFile = (path, ...rest) => {
    const code = sources.get(path);
    return code === undefined ? getSourceFile(path, ...rest) : ts.createSourceFile(path, code, ts.ScriptTarget.ES2024);
  };
  const diagnostics = ts.getPreEmitDiagnostics(ts.createProgram([...sources.keys()], options, host));
  expect(
    diagnostics.map(
      ({ messageText, file, start }) => `${file?.fileName}:${start} ${ts.flattenDiagnosticMessageText(messageText, "\n")}`,
    ),
  ).toEqual([]);
});
