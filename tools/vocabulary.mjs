// Holds the event vocabulary: the catalog keeps its rules, and product code names only types of it, whole or by a published family.
// Run: node --conditions=iterate-source --import tsx tools/vocabulary.mjs [root of the tree]
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { eventCatalog, eventFamilies, platformPrefix, renamedTypes, testTypePrefix, vocabularyProblems } from "iterate/events";
import ts from "typescript";

const root = process.argv[2] ?? join(import.meta.dirname, "..");
const product = ["libs/*/src/**/*.ts", "services/*/src/**/*.ts", "deploy/local/src/**/*.ts", "docs/examples/**/*.ts"];
const notProduct = /(?:^|\/)(?:node_modules|dist|gen|testing)\/|\.(?:test|fixture)\.ts$|\.d\.ts$|^libs\/testing\/|test-support/;

/** Where types are declared; elsewhere a declaration would be outside of the catalog. */
const contractFiles = /^libs\/sdk\/src\/events\//;
/** The doors that tell the platform's types from others, and may name the prefix and the namespace of tests. */
const doors = /^(?:libs\/sdk\/src\/(?:events|stream)\/|services\/context\/src\/log\/event-admission\.ts$)/;

/** Stands in a template for what is known at run time alone. */
const hole = "\0";

/** What the source at `path`, from the root, names that it may not. */
function strayNames(path, text) {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const found = [];
  const report = (node, problem) => {
    if (problem !== null) found.push({ line: source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1, problem });
  };
  const visit = (node) => {
    if (ts.isCallExpression(node) && node.expression.getText(source) === "eventType" && !contractFiles.test(path))
      report(node, "declares an event type outside of the contract files in libs/sdk/src/events");
    const literal = textOf(node);
    if (literal !== null) {
      if (literal !== platformPrefix + hole || isMatched(node)) report(node, typeProblem(literal, path));
      // Its parts are no texts of their own.
      if (!ts.isTemplateExpression(node)) return;
      for (const span of node.templateSpans) visit(span.expression);
      return;
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** True for the argument of a call that compares beginnings or parts; any other use of a whole name made at run time is a look-up. */
function isMatched({ parent }) {
  if (!ts.isCallExpression(parent) && !ts.isNewExpression(parent)) return false;
  const { expression } = parent;
  const name = ts.isPropertyAccessExpression(expression) ? expression.name.text : expression.getText();
  return ["startsWith", "includes", "indexOf", "match", "search", "RegExp"].includes(name);
}

/** What is wrong with a text that names a type, or null. */
function typeProblem(text, path) {
  const start = text.indexOf(platformPrefix);
  // In a sentence it is prose, not a name that anything is compared with.
  if (start === -1 || contractFiles.test(path) || /[\s<]/.test(text)) return null;
  const type = text.slice(start);
  const name = type.slice(platformPrefix.length);
  if (type.startsWith(testTypePrefix) || testTypePrefix.startsWith(type))
    return doors.test(path)
      ? null
      : `names ${JSON.stringify(shown(type))}; types of tests, and the prefix as a whole, are matched by no product code`;
  if (eventCatalog.has(type) || eventFamilies.includes(name)) return null;
  return `names ${JSON.stringify(shown(type))}, which is neither a type of the catalog nor a published family (${eventFamilies.join(", ")})`;
}

const shown = (type) => type.replaceAll(hole, "…");

/** The text a node stands for, `\0` for each part that is known at run time alone; null when it is no text. */
function textOf(node) {
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text;
  if (ts.isRegularExpressionLiteral(node))
    return node.text
      .replace(/^\/\^?/, "")
      .replace(/\/[a-z]*$/, "")
      .replaceAll("\\", "");
  if (ts.isTemplateExpression(node))
    return node.head.text + node.templateSpans.map(({ expression, literal }) => partOf(expression) + literal.text).join("");
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
    const parts = [node.left, node.right].map(partOf);
    return parts.every((part) => part === hole) ? null : parts.join("");
  }
  return null;
}

function partOf(node) {
  if (ts.isIdentifier(node)) return { platformPrefix, platformTypePrefix: platformPrefix, testTypePrefix }[node.text] ?? hole;
  return textOf(node) ?? hole;
}

const problems = vocabularyProblems(eventCatalog, renamedTypes).map(({ type, problem }) => `the type ${type} ${problem}`);
for (const [type, { migration }] of renamedTypes)
  if (!existsSync(join(root, migration))) problems.push(`the type ${type} is renamed by ${migration}, which is not there`);
for (const path of product.flatMap((pattern) => globSync(pattern, { cwd: root })).sort()) {
  if (notProduct.test(path)) continue;
  for (const { line, problem } of strayNames(path, readFileSync(join(root, path), "utf8")))
    problems.push(`${path}:${line} ${problem}`);
}
for (const problem of problems) process.stderr.write(`vocabulary: ${problem}\n`);
if (problems.length > 0) process.exitCode = 1;
