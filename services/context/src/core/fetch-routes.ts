/** The fetch routes of a project: a row replaces the one of its name, and one without a matcher takes it away. */
import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import type { z } from "zod";
import type { FetchRoutes } from "../routes/contract.js";
import type { Reducer } from "./reducer.js";

type Configured = z.infer<typeof itx.fetchRouteConfigured.payload>;

const { perContext } = itx.fetchRouteLimits;

export const fetchRoutes: Reducer<FetchRoutes> = {
  initial: {},
  types: [itx.fetchRouteConfigured.type],

  reduce(routes, { offset, payload }) {
    const { fetchRouteName: name, requestMatcher, target, authRequirement, priority } = payload as Configured;
    if (requestMatcher === null || target === undefined) {
      if (!Object.hasOwn(routes, name)) return routes;
      const { [name]: _, ...rest } = routes;
      return rest;
    }
    const row = {
      name,
      requestMatcher,
      target,
      authRequirement: authRequirement ?? null,
      priority: priority ?? 0,
      configuredAtOffset: offset,
    };
    // By name, so that two processes that folded the same events store the same text.
    return Object.fromEntries(Object.entries({ ...routes, [name]: row }).sort(([one], [other]) => (one < other ? -1 : 1)));
  },

  check(routes, { payload }) {
    const { fetchRouteName: name, requestMatcher } = payload as Configured;
    if (requestMatcher === null || Object.hasOwn(routes, name) || Object.keys(routes).length < perContext) return;
    throw codedError("INVALID_INPUT", `the project has ${perContext} fetch routes already; take one away before adding another`, {
      limit: perContext,
    });
  },
};
