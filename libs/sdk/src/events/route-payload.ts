/** What makes a fetch route well-formed: which requests it is for, what answers them, and who may ask. */
import { z } from "zod";
import { argsOf, nameOf, printExpression, spellsBuiltins, stepsOf, type Expression } from "../expression/index.js";
import { callField } from "./expression-field.js";
import { parseUrlPattern, urlComponents, type UrlComponent } from "./url-pattern.js";

/** Bounds of fetch routes. Bytes are of JSON. */
export const fetchRouteLimits = {
  perContext: 200,
  nameLength: 128,
  targetBytes: 65_536,
  headers: 16,
  headerChars: 1_024,
} as const;

/** A DNS label that starts with a letter and holds no `--`. */
const routingSlug = z
  .string()
  .regex(/^[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/, "is no routing slug")
  .refine((slug) => !slug.includes("--") && slug !== "files", "is reserved");

const component = (name: UrlComponent) =>
  z
    .string()
    .superRefine((text, context) => {
      const parsed = parseUrlPattern(name, text);
      if (typeof parsed === "string") context.addIssue({ code: "custom", message: parsed });
    })
    .optional();

const requestMatcher = z.strictObject({
  /** Requests for this slug alone; absent, for whatever slug and for the apex. */
  routingSlug: routingSlug.optional(),
  /** A component that is absent matches anything. */
  url: z
    .strictObject(
      Object.fromEntries(urlComponents.map((name) => [name, component(name)])) as Record<
        UrlComponent,
        ReturnType<typeof component>
      >,
    )
    .optional(),
  /** Values that are equal, by names whose case means nothing. */
  headers: z
    .record(
      z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$/, "is no header name"),
      z.string().max(fetchRouteLimits.headerChars),
    )
    .refine(
      (headers) => Object.keys(headers).length <= fetchRouteLimits.headers,
      `names more than ${fetchRouteLimits.headers} headers`,
    )
    .optional(),
});

/** What answers requests. */
export const fetchTarget = callField
  .refine((target) => /^[\x20-\x7e]*$/.test(printExpression(target)), "may hold ASCII alone")
  .refine((target) => !spellsBuiltins(target), "may not name what is below itx.builtins")
  .refine((target) => !givesFetchArguments(target), "may give fetch no arguments: the request is its argument")
  .refine(
    (target) => JSON.stringify(target).length <= fetchRouteLimits.targetBytes,
    `is over ${fetchRouteLimits.targetBytes} bytes`,
  );

function givesFetchArguments(target: Expression): boolean {
  return stepsOf(target).some((step) => nameOf(step) === "fetch" && argsOf(step) !== null);
}

export const fetchRoutePayload = z
  .object({
    fetchRouteName: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,128}$/)
      .refine((name) => !["constructor", "prototype", "__proto__"].includes(name), "is reserved"),
    /** Which requests it is for; null takes the route away. */
    requestMatcher: requestMatcher.nullable(),
    /** What answers them; its `fetch` is given the request. */
    target: fetchTarget.optional(),
    /** Who may ask; null and absent: anybody. */
    authRequirement: z.literal("project-members").nullable().optional(),
    /** The higher one answers where several match, then the first by name; 0 when absent. */
    priority: z.int().min(-1_000).max(1_000).optional(),
  })
  .refine(({ requestMatcher: matcher, target }) => matcher === null || target !== undefined, {
    path: ["target"],
    message: "is missing",
  });
