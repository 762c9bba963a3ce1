/** Facts that builtins record in the context they are called in, as the caller. */
import type { EventTypeDeclaration } from "iterate/events";
import { codedError } from "iterate/lib";
import type { BuiltinCall } from "./contract.js";

/** Appends one event and answers its offset. Throws as an append does. */
export async function record(
  { log }: Pick<BuiltinCall, "log">,
  { type }: Pick<EventTypeDeclaration, "type">,
  payload: unknown,
): Promise<number> {
  const [event] = await log.append([{ type, payload }]);
  if (event === undefined) throw codedError("INTERNAL", `the append of ${type} was answered without an event`);
  return event.offset;
}

/** An object without the keys whose value is undefined: what is appended is JSON. */
export function present<Value extends object>(value: Value): Value {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as Value;
}
