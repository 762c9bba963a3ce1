import { IterateConfigEntrypoint } from "iterate/sdk";

/** Answers the project's page: how often `/hello` was greeted. */
export default class extends IterateConfigEntrypoint {
  override async fetch(): Promise<Response> {
    using itx = this.getItx();
    const state = await itx
      .cd("/hello")
      .facets.get("counter")
      .snapshot<{ greetings: number }>()
      // It has no state until its first batch is done.
      .then((snapshot) => snapshot.state ?? { greetings: 0 })
      .catch((error: { code?: unknown }) => {
        // The counter is not there before its subscription is configured.
        if (error.code === "NO_FACET") return { greetings: 0 };
        throw error;
      });
    return Response.json(state);
  }
}
