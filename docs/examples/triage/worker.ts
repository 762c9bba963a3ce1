/** The project's pages: the board as HTML, and its state as JSON. */
import { IterateConfigEntrypoint } from "iterate/sdk";
import { boardPage } from "./page.js";
import type { Board } from "./triage.js";

const empty: Board = { deliveries: 0, byName: {}, items: {} };

export default class extends IterateConfigEntrypoint {
  override async fetch(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (request.method !== "GET" && request.method !== "HEAD")
      return new Response("only GET is answered here\n", { status: 405, headers: { allow: "GET, HEAD" } });
    if (pathname === "/state.json") return Response.json(await this.#board());
    if (pathname !== "/" && pathname !== "") return new Response("there is / and /state.json\n", { status: 404 });
    const { state } = await this.#board();
    return new Response(boardPage(state, request.headers.get("x-iterate-base-path") ?? ""), {
      headers: {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
      },
    });
  }

  async #board(): Promise<{ offset: number; state: Board }> {
    using itx = this.getItx();
    try {
      const { offset, state } = await itx.cd("/integrations/github/main").facets.get("triage").snapshot<Board>();
      // It has none until its first batch is done.
      return { offset, state: state ?? empty };
    } catch (error) {
      // The processor is not there before its subscription is configured.
      if ((error as { code?: unknown }).code === "NO_FACET") return { offset: 0, state: empty };
      throw error;
    }
  }
}
