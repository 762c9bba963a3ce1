/**
 * The files of a migrations folder, read and checked before anything touches a database.
 */
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { codedError } from "iterate/lib";

export type Migration = { number: number; name: string; checksum: string } & (
  { kind: "transaction"; sql: string } | { kind: "concurrent"; statements: readonly IndexStatement[] }
);

export interface IndexStatement {
  index: string;
  sql: string;
}

const fileName = /^(\d{3,4})_[a-z0-9_]+(\.concurrent)?\.sql$/;
const indexStatement = /^create\s+(?:unique\s+)?index\s+concurrently\s+if\s+not\s+exists\s+([a-z_][a-z0-9_]*)\s/i;

/**
 * The migrations of `dir` in order.
 *
 * @throws CodedError INTERNAL naming the file that is misnamed, shares its number, or does in a `.concurrent.sql` what it may not.
 */
export async function readMigrations(dir: string): Promise<Migration[]> {
  const names = (await readdir(dir)).filter((name) => name.endsWith(".sql"));
  const migrations = await Promise.all(names.map(async (name) => parseMigration(name, await readFile(join(dir, name), "utf8"))));
  migrations.sort((one, other) => one.number - other.number || one.name.localeCompare(other.name));
  migrations.forEach((migration, index) => {
    const before = migrations[index - 1];
    if (before?.number === migration.number)
      throw codedError("INTERNAL", `migrations ${before.name} and ${migration.name} share a number`);
  });
  return migrations;
}

export function parseMigration(name: string, text: string): Migration {
  const match = fileName.exec(name);
  if (match?.[1] === undefined)
    throw codedError("INTERNAL", `migration ${name} is not named NNN_words.sql or NNN_words.concurrent.sql`);
  // Line ends may change with a checkout; nothing else may.
  const sql = text.replaceAll("\r\n", "\n");
  const shared = { number: Number(match[1]), name, checksum: createHash("sha256").update(sql).digest("hex") };
  if (match[2] === undefined) return { ...shared, kind: "transaction", sql };
  return { ...shared, kind: "concurrent", statements: parseIndexStatements(name, sql) };
}

function parseIndexStatements(name: string, sql: string): IndexStatement[] {
  const statements = sql
    .replaceAll(/^\s*--.*$/gm, "")
    .split(/;\s*(?:\n|$)/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== "");
  return statements.map((statement) => {
    const index = indexStatement.exec(statement)?.[1];
    if (index === undefined || statement.includes(";")) {
      throw codedError(
        "INTERNAL",
        `migration ${name} may hold \`create index concurrently if not exists <name> …;\` alone, one per line end`,
      );
    }
    return { index: index.toLowerCase(), sql: statement };
  });
}
