/** Project templates: folders of files that become the first commit of a config repo. */
import { readdir, readFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";

export interface TemplateFile {
  /** Path inside the repository, with `/`. */
  readonly path: string;
  readonly content: Buffer;
}

/** What a working copy may hold and a repository does not. */
const leftOut = new Set(["node_modules", "dist", ".git"]);

/** All files of the template, by path. Throws when the folder is missing: the deployment is incomplete. */
export async function readTemplate(templatesDir: string, name: string): Promise<TemplateFile[]> {
  const root = join(templatesDir, name);
  const files: TemplateFile[] = [];
  await walk(root, async (path) => {
    files.push({ path: relative(root, path).split(sep).join("/"), content: await readFile(path) });
  });
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

async function walk(folder: string, visit: (path: string) => Promise<void>): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (leftOut.has(entry.name)) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await walk(path, visit);
    else if (entry.isFile()) await visit(path);
  }
}
