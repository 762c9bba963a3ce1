/** `fetchRoutes`: what answers the HTTP requests of a project. */
import { group, method } from "@iterate-platform/service/capability";
import { itx } from "iterate/events";
import { printExpression, toExpression } from "iterate/expression";
import { codedError } from "iterate/lib";
import { z } from "zod";
import { initialCore } from "../../core/fold.js";
import type { CoreState } from "../../core/contract.js";
import { readableCore, type Heads } from "../../log/confirm.js";
import type { ContextAddress } from "../../log/contract.js";
import type { FetchRouteRow } from "../../routes/contract.js";
import { matchFetchRoute } from "../../routes/match.js";
import { expressionForm, none } from "../arguments.js";
import type { BuiltinCall, ContextRoot } from "../contract.js";
import { present, record } from "../record.js";

const types = `interface RequestMatcher {
  /** Requests for this slug alone; absent, for whatever slug and for the apex. */
  routingSlug?: string;
  /** Patterns: literal text, * for any text, :name up to the next / or dot. What is absent matches anything. */
  url?: { protocol?: string; hostname?: string; port?: string; pathname?: string; search?: string };
  /** Exact values; the case of names means nothing. */
  headers?: Record<string, string>;
}
interface FetchRoute {
  name: string;
  requestMatcher: RequestMatcher;
  /** What answers, as text; its fetch is given the request. */
  target: string;
  authRequirement: "project-members" | null;
  priority: number;
  configuredAtOffset: number;
}
interface FetchRouteInput {
  /** Letters, digits, _ and -. */
  name: string;
  requestMatcher: RequestMatcher;
  target: string | unknown[];
  authRequirement?: "project-members" | null;
  /** The higher one answers where several match, then the first by name; 0 when absent. */
  priority?: number;
}`;

const longest = 8_192;

export function fetchRoutesRoot(heads: Heads): ContextRoot {
  const coreOf = async (address: ContextAddress): Promise<CoreState> => {
    const head = await heads.confirm(address);
    return head === undefined ? initialCore : readableCore(head);
  };
  return {
    name: "fetchRoutes",
    isContextRoot: false,
    description: "Says what answers the HTTP requests of the project.",
    instructions:
      "Routes live in the root of the project. Of those that match a request the one of highest priority takes it, then the first by " +
      "name; what none takes goes to the ingress target, and without one to the published code. A route with a routingSlug never takes " +
      "requests of the apex.",
    types,
    member: group<BuiltinCall>({
      list: method(
        none,
        {
          signature: "() => Promise<FetchRoute[]>",
          description: "All routes, by name.",
          example: "itx.fetchRoutes.list()",
          effect: "read",
        },
        async ({ address }: BuiltinCall) => Object.values((await coreOf(address)).fetchRoutes).map(told),
      ),
      set: method(
        z.tuple([
          z.strictObject({
            name: z.string(),
            requestMatcher: z.record(z.string(), z.json()),
            target: expressionForm,
            authRequirement: z.literal("project-members").nullable().optional(),
            priority: z.int().optional(),
          }),
        ]),
        {
          signature: "(route: FetchRouteInput) => Promise<{name: string; configuredAtOffset: number}>",
          description: "Makes a route, or replaces the one of its name.",
          example:
            'itx.fetchRoutes.set({name: "docs", requestMatcher: {url: {pathname: "/docs/*"}}, target: "itx.cd(\'/docs\').site.fetch"})',
          effect: "write",
        },
        async (call: BuiltinCall, { name, target, ...route }) => ({
          name,
          configuredAtOffset: await record(
            call,
            itx.fetchRouteConfigured,
            present({ ...route, fetchRouteName: name, target: toExpression(target) }),
          ),
        }),
      ),
      remove: method(
        z.tuple([z.string()]),
        {
          signature: "(name: string) => Promise<{removed: boolean}>",
          description: "Takes a route away; answers whether there was one.",
          example: 'itx.fetchRoutes.remove("docs")',
          effect: "write",
        },
        async (call: BuiltinCall, name) => {
          if (!Object.hasOwn((await coreOf(call.address)).fetchRoutes, name)) return { removed: false };
          await record(call, itx.fetchRouteConfigured, { fetchRouteName: name, requestMatcher: null });
          return { removed: true };
        },
      ),
      match: method(
        z.tuple([
          z.strictObject({
            url: z.string().max(longest),
            routingSlug: z.string().max(63).nullable().optional(),
            headers: z.record(z.string().max(256), z.string().max(longest)).optional(),
          }),
        ]),
        {
          signature:
            "(request: {url: string; routingSlug?: string | null; headers?: Record<string, string>}) => " +
            "Promise<{route: FetchRoute | null; target: string}>",
          description: "Which route takes a request, and what answers it.",
          example: 'itx.fetchRoutes.match({url: "https://acme.example/docs/start"})',
          effect: "read",
        },
        async ({ address }: BuiltinCall, { url, routingSlug, headers }) => {
          if (!URL.canParse(url)) throw codedError("INVALID_INPUT", "url is no absolute address", { field: "url" });
          const { fetchRoutes, ingress } = await coreOf(address);
          const route = matchFetchRoute(fetchRoutes, {
            url: new URL(url),
            routingSlug: routingSlug ?? null,
            headers: headers ?? {},
          });
          const target = route?.target ?? ingress?.target ?? (["itx", "config"] as const);
          return { route: route === undefined ? null : told(route), target: printExpression(target) };
        },
      ),
      ingress: method(
        none,
        {
          signature: "() => Promise<{target: string; configuredAtOffset: number} | null>",
          description: "What answers where no route matches; null for the published code.",
          example: "itx.fetchRoutes.ingress()",
          effect: "read",
        },
        async ({ address }: BuiltinCall) => {
          const { ingress } = await coreOf(address);
          return ingress === null ? null : { ...ingress, target: printExpression(ingress.target) };
        },
      ),
      setIngress: method(
        z.tuple([expressionForm.nullable()]),
        {
          signature: "(target: string | unknown[] | null) => Promise<{configuredAtOffset: number}>",
          description: "Says what answers where no route matches; null for the published code.",
          example: 'itx.fetchRoutes.setIngress("itx.config")',
          effect: "write",
        },
        async (call: BuiltinCall, target) => ({
          configuredAtOffset: await record(call, itx.ingressConfigured, { target: target === null ? null : toExpression(target) }),
        }),
      ),
    }),
  };
}

function told({ target, ...row }: FetchRouteRow) {
  return { ...row, target: printExpression(target) };
}
