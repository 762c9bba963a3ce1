/** The failpoints of a service, as its sources name them: a new one is in every suite that kills at each. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const call = /\bfailpoint\(\s*(?:"([^"]+)")?/g;

/** @throws Error when a call names its point by other than a plain text, since nobody could list it then. */
export function failpointsOf(sources: string): string[] {
  const names = readdirSync(sources, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts") && !/\.(test|fixture)\.ts$/.test(path))
    .flatMap((path) =>
      [...readFileSync(join(sources, path), "utf8").matchAll(call)].map(([, name]) => {
        if (name === undefined) throw new Error(`${path} passes a failpoint whose name is not written out`);
        return name;
      }),
    );
  return [...new Set(names)].sort();
}
