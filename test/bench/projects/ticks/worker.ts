import { IterateConfigEntrypoint } from "iterate/sdk";

export default class extends IterateConfigEntrypoint {
  override async fetch(): Promise<Response> {
    using itx = this.getItx();
    return Response.json(await itx.cd("/tenth").facets.get("tenth").snapshot());
  }
}
