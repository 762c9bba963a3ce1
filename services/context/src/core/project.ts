/** What a project is called: from the fact that asked for it, or that it was imported. Kept by its root. */
import { project as events } from "iterate/events";
import type { ProjectState } from "./contract.js";
import type { Reducer } from "./reducer.js";

export const project: Reducer<ProjectState | null> = {
  initial: null,
  types: [events.projectCreateRequested.type, events.projectImported.type],
  reduce(_, { payload }) {
    const { slug } = payload as { readonly slug: string };
    return { slug };
  },
};
