import { build } from "esbuild";
import { beforeAll, expect, test } from "vitest";
import type { BundleModule } from "./bundle.js";
import { toSourcePlaces } from "./source-places.js";

const source = `export const first = 1;

export function refuse(name: string): never {
  throw new Error(name);
}
`;
let modules: BundleModule[];
let thrownAt: string;

beforeAll(async () => {
  const { outputFiles } = await build({
    stdin: { contents: `import { refuse } from "dep"; export { refuse };`, loader: "ts", sourcefile: "main.ts" },
    outfile: "/lib/main.js",
    bundle: true,
    write: false,
    format: "esm",
    sourcemap: "external",
    sourcesContent: false,
    plugins: [
      {
        name: "dep",
        setup: (build) => {
          build.onResolve({ filter: /^dep$/ }, () => ({ path: "lib/refuse.ts", namespace: "project" }));
          build.onLoad({ filter: /.*/, namespace: "project" }, () => ({
            contents: `${"// filler\n".repeat(5)}${source}`,
            loader: "ts",
          }));
        },
      },
    ],
  });
  modules = outputFiles.map(({ path, contents }) => ({
    name: path.slice(1),
    kind: path.endsWith(".map") ? ("json" as const) : ("esModule" as const),
    data: contents,
  }));
  const built = Buffer.from(modules.find(({ name }) => name === "lib/main.js")!.data)
    .toString()
    .split("\n");
  const line = built.findIndex((text) => text.includes("throw new Error"));
  thrownAt = `lib/main.js:${line + 1}:${built[line]!.indexOf("new Error") + 1}`;
});

test("a frame names the file, line and column of the source", () => {
  expect(toSourcePlaces(`Error: Mallory\n    at refuse (${thrownAt})\n    at async ${thrownAt}`, { modules })).toBe(
    "Error: Mallory\n    at refuse (lib/refuse.ts:9:9)\n    at async lib/refuse.ts:9:9",
  );
});

test("a frame that the code logged itself names the source, too", () => {
  expect(toSourcePlaces(`Error: x\n    at refuse (bundle/${thrownAt})`, { modules })).toBe(
    "Error: x\n    at refuse (lib/refuse.ts:9:9)",
  );
});

test("what is no frame, or of no module with a map, stays as it is", () => {
  const text = `Error: at ${thrownAt}\n  seen in ${thrownAt}\n    at other (other.js:1:1)\n    at refuse (lib/main.js:99999:1x)`;
  expect(toSourcePlaces(text, { modules: modules.filter(({ name }) => name !== "lib/main.js.map") })).toBe(text);
  expect(toSourcePlaces(`one line at ${thrownAt}`, { modules })).toBe(`one line at ${thrownAt}`);
  expect(toSourcePlaces(`Error: ${thrownAt}\n  seen in ${thrownAt}`, { modules })).toBe(
    `Error: ${thrownAt}\n  seen in ${thrownAt}`,
  );
});

test.for([
  ["no JSON", Buffer.from("{")],
  ["no map", Buffer.from("null")],
  ["a map of another shape", Buffer.from('{"version":3,"sources":7,"mappings":"AAAA"}')],
  ["a map that is too large", Buffer.concat([Buffer.from("{}"), Buffer.alloc(4 * 1024 * 1024 - 1, " ")])],
])("%s leaves the stack as it is", ([, data]) => {
  const stack = "Error: x\n    at refuse (a.js:1:1)";
  expect(toSourcePlaces(stack, { modules: [{ name: "a.js.map", kind: "json", data: data as Uint8Array }] })).toBe(stack);
});
