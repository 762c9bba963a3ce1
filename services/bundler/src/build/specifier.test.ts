import { describe, expect, it } from "vitest";
import { resolveSpecifier, type ModuleNames } from "./specifier.js";

const files = ["worker.ts", "lib/a.ts", "lib/b.js", "lib/index.ts", "ui/page.tsx", "data/config.json", "Case.ts", "mod.mts"];
const links = ["secret.ts", "linked"];
const names: ModuleNames = {
  has: (path) => files.includes(path) || links.includes(path),
  isSymlink: (path) => links.includes(path),
  otherCase: (path) => files.find((file) => file !== path && file.toLowerCase() === path.toLowerCase()),
};
const platform = { "iterate/sdk": "iterate/src/sdk/index.ts", zod: "zod/index.js" };

const resolve = (specifier: string, importer = "worker.ts") => resolveSpecifier(specifier, importer, names, platform);

describe("an import leads", () => {
  it.each([
    ["./lib/a.ts", "worker.ts", "lib/a.ts"],
    ["./lib/a.js", "worker.ts", "lib/a.ts"],
    ["./lib/a", "worker.ts", "lib/a.ts"],
    ["./lib/b", "worker.ts", "lib/b.js"],
    ["./lib", "worker.ts", "lib/index.ts"],
    [".", "lib/a.ts", "lib/index.ts"],
    ["../ui/page.js", "lib/a.ts", "ui/page.tsx"],
    ["./mod.mjs", "worker.ts", "mod.mts"],
    ["./data/config", "worker.ts", "data/config.json"],
    ["./lib/../worker", "lib/../worker.ts", "worker.ts"],
  ])("%s in %s to the file %s", (specifier, importer, path) => {
    expect(resolve(specifier, importer)).toEqual({ kind: "project", path });
  });

  it("iterate and zod to the platform's modules", () => {
    expect(resolve("iterate/sdk")).toEqual({ kind: "platform", id: "iterate/src/sdk/index.ts" });
    expect(resolve("zod")).toEqual({ kind: "platform", id: "zod/index.js" });
  });

  it.each(["node:async_hooks", "node:crypto", "cloudflare:workers"])("%s to the runtime", (specifier) => {
    expect(resolve(specifier)).toEqual({ kind: "external", specifier });
  });
});

describe("an import is refused by name", () => {
  it.each([
    ["/etc/passwd", /"\/etc\/passwd" is an absolute path/],
    ["../outside", /"\.\.\/outside" leads out of the repo/],
    ["./lib/../../outside", /leads out of the repo/],
    ["..", /leads out of the repo/],
    ["./secret", /leads to "secret\.ts", a symbolic link/],
    ["./linked/inside", /leads to "linked", a symbolic link/],
    ["./case", /the repo has "Case\.ts", and case matters/],
    ["./absent", /the repo has no file "absent"/],
    ["node:fs", /"node:fs" is not available to project code; it may use .*node:crypto/],
    ["node:child_process", /is not available/],
    ["fs", /is a Node builtin that project code cannot use/],
    ["crypto", /write "node:crypto" instead of "crypto"/],
    ["left-pad", /the package "left-pad" is not available: a build installs no npm packages; .*"iterate\/sdk"/],
    ["@scope/name/deep", /the package "@scope\/name" is not available/],
    ["iterate/node", /"iterate\/node" does not exist for project code; there is "iterate\/sdk"/],
    ["constructor", /the package "constructor" is not available/],
    ["file:///etc/passwd", /is a URL/],
    ["https://example.com/x.js", /is a URL/],
    ["data:text/javascript,1", /is a URL/],
    ["#internal", /package-internal/],
    ["./a\\..\\b", /is not an import specifier/],
    ["./a\0b", /is not an import specifier/],
    ["", /is not an import specifier/],
  ])("%j", (specifier, message) => {
    const resolution = resolve(specifier);
    expect(resolution.kind).toBe("refused");
    expect(resolution.kind === "refused" && resolution.message).toMatch(message);
  });
});
