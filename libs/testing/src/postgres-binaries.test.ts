import { spawnSync } from "node:child_process";
import { cpSync, existsSync, lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { hydrate, postgresBinaries } from "./postgres-binaries.js";

test("the binaries find their libraries", () => {
  const { initdb, postgres } = postgresBinaries();
  for (const program of [initdb, postgres]) {
    const { status, stdout } = spawnSync(program, ["--version"], { encoding: "utf8" });
    expect(status).toBe(0);
    expect(stdout).toMatch(/PostgreSQL\) 1[5-9]/);
  }
});

test("a copy under any name gets its own library links, once", () => {
  const folder = mkdtempSync(join(tmpdir(), "binaries-"));
  const copy = join(folder, "18.0");
  cpSync(dirname(dirname(postgresBinaries().initdb)), copy, { recursive: true, verbatimSymlinks: true });
  const lib = join(copy, "lib");
  for (const name of readdirSync(lib)) if (lstatSync(join(lib, name)).isSymbolicLink()) rmSync(join(lib, name));
  hydrate(copy);
  hydrate(copy);
  const links = readdirSync(lib).filter((name) => lstatSync(join(lib, name)).isSymbolicLink());
  expect(links).toContain("libpq.so.5");
  for (const name of links) expect(existsSync(join(lib, name)), name).toBe(true);
  expect(readdirSync(folder)).toEqual(["18.0"]);
  rmSync(folder, { recursive: true });
});
