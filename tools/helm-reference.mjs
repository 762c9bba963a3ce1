// Keeps the charts' reference true: the tunables of each service in `values.schema.json` (from the variables the services declare) and
// the tables of `README.md` (from the comments of `values.yaml`). Writes both; with `--print` prints them, and every declared variable,
// as JSON instead.
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { format, resolveConfig } from "prettier";
import { parse } from "yaml";

const root = join(import.meta.dirname, "..");
const chart = join(root, "charts/iterate");

/** The program behind each block of values. */
const programs = {
  ingress: "services/ingress/src/main.ts",
  context: "services/context/src/main.ts",
  runner: "services/runner/src/main.ts",
  runnerIsolate: "services/runner/src/isolate-main.ts",
  bundler: "services/bundler/src/main.ts",
  buildWorker: "services/bundler/src/worker-main.ts",
  telemetry: "services/telemetry/src/main.ts",
};

/** Numbers and choices that the chart has a value of its own for, or refuses to change. */
const ownedByChart = ["DRAIN_MS", "DATABASE_POOLER", "PROJECT_HOSTS"];

const values = readFileSync(join(chart, "values.yaml"), "utf8");
const variables = {};
for (const [block, program] of Object.entries(programs)) variables[block] = await variablesOf(program);
const files = {
  "values.schema.json": await withTunables(JSON.parse(readFileSync(join(chart, "values.schema.json"), "utf8")), variables),
  "README.md": withTables(readFileSync(join(chart, "README.md"), "utf8"), values),
};
if (process.argv[2] === "--print") process.stdout.write(JSON.stringify({ variables, files }));
else for (const [name, text] of Object.entries(files)) writeFileSync(join(chart, name), text);

/** What a program declares: {name, expected, fallback, isRequired, isSecret, meaning} of each variable. */
async function variablesOf(program) {
  const args = ["--conditions=iterate-source", "--import", "tsx", program, "--print-config-docs"];
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    cwd: root,
    env: { PATH: process.env.PATH },
    timeout: 60_000,
  });
  return stdout
    .trim()
    .split("\n")
    .slice(2)
    .map((line) => {
      const [name, expected, fallback, meaning] = line
        .slice(2, -2)
        .split(/(?<!\\) \| /)
        .map((cell) => cell.replaceAll("\\|", "|"));
      return {
        name: name.replaceAll("`", ""),
        expected,
        fallback,
        isRequired: fallback === "**required**",
        isSecret: meaning.endsWith("Secret: never printed."),
        meaning,
      };
    });
}

async function withTunables(schema, declared) {
  for (const [block, list] of Object.entries(declared)) {
    const properties = list
      .filter(({ name, isSecret }) => !isSecret && !ownedByChart.includes(name))
      .map(({ name, expected, meaning }) => [name, typeOf(expected, meaning)])
      .filter(([, type]) => type !== undefined);
    schema.$defs[`${block}Config`] = { type: "object", additionalProperties: false, properties: Object.fromEntries(properties) };
  }
  const file = join(chart, "values.schema.json");
  return await format(JSON.stringify(schema), { ...(await resolveConfig(file)), filepath: file });
}

/**
 * The JSON schema of a number, a choice or a list of formats; nothing for any other kind, which says where something is rather than how
 * much of it.
 */
function typeOf(expected, description) {
  const range = /^a whole number from (-?\d+) to (\d+)$/.exec(expected);
  if (range !== null) return { type: "integer", minimum: Number(range[1]), maximum: Number(range[2]), description };
  if (/^[a-z0-9-]+( or [a-z0-9-]+)*$/.test(expected)) return { type: "string", enum: expected.split(" or "), description };
  if (expected.startsWith("types with a format")) return { type: "string", pattern: "^([a-z0-9/-]+=[0-9]+(,|$))*$", description };
  return undefined;
}

function withTables(readme, text) {
  const defaults = parse(text);
  const rows = commentedKeys(text);
  const blocks = Object.keys(programs);
  const of = (path) => path.split(".").reduce((value, key) => value?.[key], defaults);
  const shared = rows.filter(({ path }) => !blocks.includes(path.split(".")[0]));
  const shape = rows
    .filter(({ path }) => path.startsWith(`${blocks[0]}.`))
    .map(({ path, meaning }) => ({ path: path.slice(blocks[0].length + 1), meaning }));
  const differing = blocks
    .slice(1)
    .flatMap((block) =>
      shape
        .filter(({ path }) => cell(of(`${block}.${path}`)) !== cell(of(`${blocks[0]}.${path}`)))
        .map(({ path }) => `| \`${block}.${path}\` | ${cell(of(`${block}.${path}`))} |`),
    );
  return [
    [
      "values",
      [
        "| value | default | meaning |",
        "|---|---|---|",
        ...shared.map(({ path, meaning }) => `| \`${path}\` | ${cell(of(path))} | ${meaning} |`),
      ],
    ],
    [
      "service values",
      [
        "| value | default | meaning |",
        "|---|---|---|",
        ...shape.map(({ path, meaning }) => `| \`${path}\` | ${cell(of(`${blocks[0]}.${path}`))} | ${meaning} |`),
      ],
    ],
    ["differing values", ["| value | default |", "|---|---|", ...differing]],
  ].reduce((page, [name, lines]) => between(page, name, lines.join("\n")), readme);
}

/** Keys with a `# --` comment before them, by their dotted path, in order. */
function commentedKeys(text) {
  const rows = [];
  const path = [];
  let comment = "";
  for (const line of text.split("\n")) {
    const note = /^\s*# -- (.*)$/.exec(line);
    const key = /^( *)([A-Za-z]\w*):/.exec(line);
    if (note !== null) comment = note[1];
    else if (key !== null) {
      path.splice(key[1].length / 2);
      path.push(key[2]);
      if (comment !== "") rows.push({ path: path.join("."), meaning: comment });
      comment = "";
    }
  }
  return rows;
}

function cell(value) {
  return `\`${JSON.stringify(value)}\``;
}

/** The page with what is between the two markers of a table replaced. */
function between(page, name, table) {
  const [start, end] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
  const from = page.indexOf(start);
  const to = page.indexOf(end);
  if (from < 0 || to < from) throw new Error(`README.md lacks the markers of "${name}"`);
  return `${page.slice(0, from + start.length)}\n\n${table}\n\n${page.slice(to)}`;
}
