import { IterateConfigEntrypoint } from "iterate/sdk";

export default class extends IterateConfigEntrypoint {
  override async fetch(request: Request): Promise<Response> {
    const { pathname, href } = new URL(request.url);
    if (pathname === "/request") {
      return Response.json({
        href,
        method: request.method,
        headers: Object.fromEntries(request.headers),
        body: await request.text(),
      });
    }
    using itx = this.getItx();
    return Response.json(await itx.cd("/integrations/github/main").facets.get("counter").snapshot());
  }
}
