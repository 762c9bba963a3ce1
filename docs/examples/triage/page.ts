/** The board as a page. Everything shown comes from strangers, so every value is escaped. */
import type { BoardItem } from "./contract.js";
import type { Board } from "./triage.js";

const escapes: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (character) => escapes[character]!);

/** Only web addresses become links. */
const linkTo = (url: string, text: string): string =>
  /^https?:\/\//.test(url) ? `<a href="${escapeHtml(url)}" rel="noreferrer">${escapeHtml(text)}</a>` : escapeHtml(text);

export function boardPage(board: Board, basePath: string): string {
  const items = Object.values(board.items).sort((a, b) => (a.updatedAt < b.updatedAt ? 1 : -1));
  const open = items.filter(({ state }) => state === "open");
  const counts = Object.entries(board.byName).sort(([, a], [, b]) => b - a);
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Triage</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
  table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd; vertical-align: top }
  .label { background: #e8eef8; border-radius: 1rem; padding: 0 .5rem; font-size: .85em; white-space: nowrap } .suggested { background: #f8efd8 }
  @media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } td, th { border-color: #444 } a { color: #8ab4f8 } .label { background: #2d3a52 } .suggested { background: #4d4222 } }
</style>
<h1>Triage</h1>
<p>${open.length} open of ${items.length} items, from ${board.deliveries} deliveries. <a href="${escapeHtml(basePath)}/state.json">state.json</a></p>
${table(open, "Open")}
${table(
  items.filter(({ state }) => state !== "open"),
  "Done",
)}
<h2>Deliveries by event</h2>
<table><tr><th>event<th>count</tr>${counts.map(([name, count]) => `<tr><td>${escapeHtml(name)}<td>${count}</tr>`).join("")}</table>
</html>
`;
}

function table(items: readonly BoardItem[], title: string): string {
  if (items.length === 0) return "";
  const rows = items
    .slice(0, 200)
    .map(
      (item) =>
        `<tr><td>${linkTo(item.url, `${item.repo}#${item.number}`)}<td>${item.kind === "issue" ? "issue" : "pull request"}<td>${escapeHtml(item.title)}<td>${escapeHtml(item.author)}<td>${item.state}<td>${[
          ...item.labels.map((label) => `<span class="label">${escapeHtml(label)}</span>`),
          ...item.suggested.map((label) => `<span class="label suggested" title="suggested">${escapeHtml(label)}</span>`),
        ].join(" ")}</tr>`,
    );
  return `<h2>${title}</h2>\n<table><tr><th>item<th>kind<th>title<th>author<th>state<th>labels</tr>${rows.join("\n")}</table>`;
}
