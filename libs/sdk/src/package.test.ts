/** The package as its users get it: what each module exports, and which of them stay clear of Node. */
import { readFileSync } from "node:fs";
import { build } from "esbuild";
import { describe, expect, it } from "vitest";

const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  exports: Record<string, unknown>;
};

/** Values; types are checked where they are used. A change here is a change of the public API. */
const exported: Record<string, readonly string[]> = {
  "./sdk": ["FacetDurableObject", "IterateConfigEntrypoint", "StreamProcessorDurableObject"],
  "./stream/processor": [
    "ProcessorEngine",
    "StreamProcessor",
    "checkPayload",
    "consumesEvent",
    "defineProcessorContract",
    "eventTypeProblem",
    "initialState",
    "maxBatchBytes",
    "maxBatchEvents",
    "maxEventBytes",
    "maxIdempotencyKeyBytes",
    "maxStateBytes",
    "maxTypeBytes",
    "platformTypePrefix",
  ],
  "./stream/test-support": ["committedEvent", "memoryStorage", "memoryStream", "reduceProcessor", "settle"],
  "./api": ["isolateGlobal", "projectTemplates", "webhookProviders"],
  "./node": ["connectIterate"],
  "./expression": [
    "argsOf",
    "assertExpression",
    "assertTarget",
    "expressionLimits",
    "fillTarget",
    "hasHoles",
    "holesOf",
    "isEqualJson",
    "isSameExpression",
    "isStepName",
    "matchExpression",
    "nameOf",
    "parseExpression",
    "parseTarget",
    "pinnedArgs",
    "printExpression",
    "printJson",
    "printTarget",
    "spellsBuiltins",
    "startsAtBuiltins",
    "stepsOf",
    "toExpression",
    "toMatch",
    "toTarget",
    "withArgs",
    "withSteps",
  ],
  "./lib": [
    "CodedError",
    "assertContextPath",
    "codedError",
    "errorCode",
    "errorCodes",
    "exceedsUtf8",
    "isCodedError",
    "isErrorCode",
    "maxContextPathBytes",
    "resolveContextPath",
    "toCodedError",
    "utf8Length",
  ],
};

describe("the exports map", () => {
  it("names the modules of the public API and no other", () => {
    expect(Object.keys(manifest.exports).sort()).toEqual([...Object.keys(exported), "./events"].sort());
  });

  it.each(Object.entries(exported))("%s exports what is published", async (subpath, names) => {
    const specifier = `iterate/${subpath.slice(2)}`;
    const module = (await import(/* @vite-ignore */ specifier)) as object;
    expect(Object.keys(module).sort()).toEqual([...names].sort());
  });

  it.each(Object.keys(manifest.exports).filter((subpath) => subpath !== "./node"))(
    "%s loads where there is no Node",
    async (subpath) => {
      const { metafile } = await build({
        stdin: { contents: `export * from "iterate/${subpath.slice(2)}";`, resolveDir: import.meta.dirname },
        bundle: true,
        format: "esm",
        platform: "browser",
        conditions: ["iterate-source"],
        external: ["node:*"],
        write: false,
        metafile: true,
      });
      const external = Object.values(metafile.inputs).flatMap(({ imports }) =>
        imports.filter((entry) => entry.external === true).map(({ path }) => path),
      );
      expect(external).toEqual([]);
      expect(Object.keys(metafile.inputs).filter((path) => /node_modules\/(ws|commander)\//.test(path))).toEqual([]);
    },
  );
});
