import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, it } from "vitest";
import { anchorsOf, linksOf } from "./page.js";
import { pages, root } from "./pages.js";

it.for(pages)("every relative link of %s leads somewhere", (page) => {
  const dead = linksOf(readFileSync(join(root, page), "utf8"))
    .filter(({ target }) => !/^[a-z]+:/.test(target))
    .filter(({ target }) => !leads(page, target))
    .map(({ line, target }) => `${page}:${line} ${target}`);
  expect(dead).toEqual([]);
});

it("every page but the README is linked from another", () => {
  const linked = new Set(
    pages.flatMap((page) =>
      linksOf(readFileSync(join(root, page), "utf8")).map(({ target }) =>
        relative(root, resolve(root, dirname(page), target.split("#")[0] ?? "")),
      ),
    ),
  );
  expect(pages.filter((page) => page !== "README.md" && !linked.has(page) && !linked.has(dirname(page)))).toEqual([]);
});

function leads(page: string, target: string): boolean {
  const [path = "", anchor] = target.split("#");
  const file = path === "" ? join(root, page) : resolve(root, dirname(page), path);
  if (!existsSync(file) || relative(root, file).startsWith("..")) return false;
  if (anchor === undefined) return true;
  return statSync(file).isFile() && anchorsOf(readFileSync(file, "utf8")).has(anchor);
}
