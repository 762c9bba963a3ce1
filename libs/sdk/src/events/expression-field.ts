/** Expressions as fields of payloads: given as text or parsed, taken in their one parsed form. */
import { z } from "zod";
import { toExpression, toMatch, toTarget, type Expression } from "../expression/index.js";
import { isCodedError } from "../lib/coded-error.js";

/** What a subscription or a route calls. */
export const callField = field(toExpression);

/** The match of a rule. */
export const matchField = field(toMatch);

/** The target of a rule, with its holes. */
export const targetField = field(toTarget);

/** `params.code` of an issue names the code of the refusal. */
function field(parse: (given: unknown) => Expression) {
  return z.union([z.string(), z.array(z.unknown())]).transform((given, context): Expression => {
    try {
      return parse(given);
    } catch (error) {
      if (!isCodedError(error)) throw error;
      context.addIssue({ code: "custom", message: error.message, params: { code: error.code } });
      return z.NEVER;
    }
  });
}
