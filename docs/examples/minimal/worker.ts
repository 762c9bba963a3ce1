import { IterateConfigEntrypoint } from "iterate/sdk";

/** Answers the project's page: how often `/hello` was greeted. */
export default class extends IterateConfigEntrypoint {
  override async fetch(): Promise<Response> {
    using itx = this.getItx();
    const state = await itx
      .cd("/hello")
      .facets.get("counter")
      .snapshot<{ greetings: number }>()
      .then((snapshot) => snapshot.state)
      .catch((error: { code?: unknown }) => {
        // The counter does not run before its first event.
        if (error.code === "NO_FACET") return { greetings: 0 };
        throw error;
      });
    return Response.json(state);
  }
}
