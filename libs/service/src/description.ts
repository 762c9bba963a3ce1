/** Descriptions between the wire and JSON. */
import { Effect } from "@iterate-platform/proto/iterate/capability/v1/capability";
import { CapabilityState, type DescribeResponse } from "@iterate-platform/proto/iterate/context/v1/context";
import type { CapabilityState as State, Description } from "iterate/api";

const states: Record<State, CapabilityState> = {
  bound: CapabilityState.CAPABILITY_STATE_BOUND,
  masked: CapabilityState.CAPABILITY_STATE_MASKED,
  dangling: CapabilityState.CAPABILITY_STATE_DANGLING,
  offline: CapabilityState.CAPABILITY_STATE_OFFLINE,
};
const stateNames = new Map(Object.entries(states).map(([name, state]) => [state, name as State]));

export function toDescribeResponse(description: Description): DescribeResponse {
  const { methods, rules, entries, standsFor, refusal, state, mayCall: _, ...words } = description;
  return {
    ...words,
    state: states[state],
    methods: methods.map(({ call, effect, ...method }) => ({
      ...method,
      path: call,
      effect: effect === "write" ? Effect.EFFECT_WRITE : Effect.EFFECT_READ,
    })),
    rules: rules.map(({ target, configuredAtOffset, by, ...rule }) => ({
      ...rule,
      target: target ?? "",
      configuredAtOffset: BigInt(configuredAtOffset),
      by: by === null ? undefined : { origin: by.origin, principal: by.principal ?? "", platform: by.isPlatform },
    })),
    entries: entries.map((entry) => ({ ...entry, state: states[entry.state] })),
    standsFor: standsFor ?? undefined,
    refusalCode: refusal?.code ?? "",
    refusalMessage: refusal?.message ?? "",
  };
}

export function fromDescribeResponse(response: DescribeResponse): Description {
  const { expression, path, state, summary, instructions, types, methods, rules, entries, standsFor, text } = response;
  const { refusalCode: code, refusalMessage: message } = response;
  return {
    expression,
    path,
    state: stateOf(state),
    summary,
    instructions,
    types,
    methods: methods.map(({ path: call, signature, description, example, effect }) => ({
      call,
      signature,
      description,
      example,
      effect: effect === Effect.EFFECT_WRITE ? "write" : "read",
    })),
    rules: rules.map(({ path: at, match, target, description, configuredAtOffset, by }) => ({
      path: at,
      match,
      target: target === "" ? null : target,
      description,
      configuredAtOffset: Number(configuredAtOffset),
      by:
        by === undefined
          ? null
          : { origin: by.origin, principal: by.principal === "" ? null : by.principal, isPlatform: by.platform },
    })),
    entries: entries.map((entry) => ({ expression: entry.expression, summary: entry.summary, state: stateOf(entry.state) })),
    standsFor: standsFor === undefined ? null : { path: standsFor.path, expression: standsFor.expression },
    mayCall: code === "",
    refusal: code === "" ? null : { code, message },
    text,
  };
}

/** A state this release does not know is one in which nothing answers. */
function stateOf(state: CapabilityState): State {
  return stateNames.get(state) ?? "offline";
}
