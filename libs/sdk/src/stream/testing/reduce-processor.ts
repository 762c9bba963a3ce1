/** The fold of a processor alone, for tables of events and states. */
import { checkPayload, consumesEvent, initialState, type AnyProcessorContract, type ProcessorState } from "../contract.js";
import type { EventInput, StreamEvent } from "../event.js";
import type { StreamProcessor } from "../stream-processor.js";
import { committedEvent } from "./committed-event.js";

/**
 * The state after `inputs`, as the engine folds them: types the contract does not consume, malformed payloads and ephemeral events are
 * left out. Unlike the engine it throws what `reduce` throws, and freezes every state so that a change in place throws too.
 */
export function reduceProcessor<C extends AnyProcessorContract>(
  processor: StreamProcessor<C>,
  inputs: readonly (EventInput | StreamEvent)[],
): ProcessorState<C> {
  const { contract } = processor;
  let state = deepFreeze(initialState(contract));
  inputs.forEach((input, index) => {
    const event = "createdAt" in input ? input : committedEvent(input, { offset: index + 1 });
    if (!consumesEvent(contract, event) || event.ephemeral === true) return;
    const checked = checkPayload(contract, event);
    if (checked.kind === "malformed") return;
    const next: ProcessorState<C> | undefined = processor.reduce({ event: { ...event, payload: checked.payload }, state });
    if (next !== undefined) state = deepFreeze(next);
  });
  return state;
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) deepFreeze(part);
  }
  return value;
}
