/**
 * A page of the documentation as a reader follows it. Three kinds of fenced blocks are steps: `sh run` is a command, `text expect`
 * right after it names lines its output contains, and `<language> file <path>` is a file the reader saves. Every other block is
 * shown and not carried out.
 */
export type Step =
  | { readonly kind: "run"; readonly line: number; readonly script: string; readonly expected: readonly string[] }
  | { readonly kind: "file"; readonly line: number; readonly path: string; readonly content: string };

interface Block {
  /** Line of the opening fence, from 1. */
  readonly line: number;
  /** What follows the opening fence. */
  readonly info: string;
  readonly content: string;
  /** Line of the closing fence. */
  readonly endLine: number;
}

/** The steps of a page, in order. Throws, naming the line, for a fence that does not end and an expectation of nothing. */
export function stepsOf(markdown: string): Step[] {
  const steps: Step[] = [];
  let previous: Block | undefined;
  for (const block of blocksOf(markdown)) {
    const { line, info, content } = block;
    const file = /^[a-z]+ file (\S+)$/.exec(info)?.[1];
    if (info === "sh run") steps.push({ kind: "run", line, script: content, expected: [] });
    else if (file !== undefined) steps.push({ kind: "file", line, path: file, content });
    else if (info === "text expect") {
      const step = steps.pop();
      if (step?.kind !== "run" || previous?.info !== "sh run")
        throw new Error(`line ${line}: \`text expect\` follows no \`sh run\``);
      const expected = content.split("\n").filter((text) => text.trim() !== "");
      if (expected.length === 0) throw new Error(`line ${line}: nothing is expected`);
      steps.push({ ...step, expected });
    } else if (/\b(run|expect|file)\b/.test(info)) throw new Error(`line ${line}: no step is called \`${info}\``);
    previous = block;
  }
  return steps;
}

/** Targets of the page's links and images, with their lines; what is inside fences and code spans is no link. */
export function linksOf(markdown: string): { readonly line: number; readonly target: string }[] {
  return proseOf(markdown).flatMap(({ line, text }) =>
    [...text.replace(/`[^`]*`/g, "``").matchAll(/\]\(([^()\s]+)\)/g)].map(([, target = ""]) => ({ line, target })),
  );
}

/** The names by which links reach the page's headings, as GitHub makes them. */
export function anchorsOf(markdown: string): Set<string> {
  return new Set(
    proseOf(markdown)
      .map(({ text }) => /^#{1,6} (.*)$/.exec(text)?.[1])
      .filter((heading) => heading !== undefined)
      .map((heading) =>
        heading
          .toLowerCase()
          .replace(/[^\p{L}\p{N}\s_-]/gu, "")
          .trim()
          .replace(/\s/g, "-"),
      ),
  );
}

function proseOf(markdown: string): { readonly line: number; readonly text: string }[] {
  const fenced = blocksOf(markdown);
  return markdown
    .split("\n")
    .map((text, at) => ({ line: at + 1, text }))
    .filter(({ line }) => !fenced.some((block) => line >= block.line && line <= block.endLine));
}

function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  let open: { line: number; fence: string; info: string; lines: string[] } | undefined;
  markdown.split("\n").forEach((text, at) => {
    const fence = /^(`{3,})(.*)$/.exec(text);
    if (open === undefined) {
      if (fence !== null) open = { line: at + 1, fence: fence[1] ?? "", info: (fence[2] ?? "").trim(), lines: [] };
    } else if (text.trimEnd() === open.fence) {
      blocks.push({ line: open.line, info: open.info, content: open.lines.map((each) => `${each}\n`).join(""), endLine: at + 1 });
      open = undefined;
    } else open.lines.push(text);
  });
  if (open !== undefined) throw new Error(`line ${open.line}: the fence does not end`);
  return blocks;
}
