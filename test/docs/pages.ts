/** The pages of the documentation, from the root of the repository. */
import { globSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));

/** The README first, then by path. Readmes of packages and examples are pages of their own folders. */
export const pages: readonly string[] = [
  "README.md",
  "CONTRIBUTING.md",
  ...globSync("docs/**/*.md", { cwd: root, exclude: (path) => path.includes("node_modules") }).sort(),
];
