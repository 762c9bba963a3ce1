/** Descriptions on the wire. */
import { Effect } from "@iterate-platform/proto/iterate/capability/v1/capability";
import { CapabilityState, type DescribeResponse } from "@iterate-platform/proto/iterate/context/v1/context";
import type { CapabilityState as State, Description } from "iterate/api";

const states: Record<State, CapabilityState> = {
  bound: CapabilityState.CAPABILITY_STATE_BOUND,
  masked: CapabilityState.CAPABILITY_STATE_MASKED,
  dangling: CapabilityState.CAPABILITY_STATE_DANGLING,
  offline: CapabilityState.CAPABILITY_STATE_OFFLINE,
};

export function descriptionMessage(description: Description): DescribeResponse {
  const { expression, path, state, summary, instructions, types, methods, rules, entries, standsFor, refusal, text } = description;
  return {
    expression,
    path,
    state: states[state],
    summary,
    instructions,
    types,
    methods: methods.map(({ call, effect, ...words }) => ({
      ...words,
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
    text,
  };
}
