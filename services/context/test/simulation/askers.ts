/** Clients that call through rules: what a call resolves to was so at some moment of the call, through whatever process it goes. */
import { itx } from "iterate/events";
import { printTarget, type Expression } from "iterate/expression";
import { isCodedError } from "iterate/lib";
import type { ContextAddress } from "../../src/log/contract.js";
import type { Pod } from "./pod.js";
import type { Random } from "./random.js";
import { ruleMatch } from "./scenery.js";
import type { World } from "./world.js";

/** Asks what the one rule of the scenery stands for, in any context and of any process. */
export async function runAsker(world: World, random: Random, name: string): Promise<void> {
  const pauseMs = random.pick([10, 60]);
  while (world.isOpen) {
    await world.time.sleep(random.next() * pauseMs);
    const pod = world.pickPod(random);
    if (pod === undefined) continue;
    const address = world.pickAddress(random);
    const { restores } = world;
    const visible = world.truth.headOf(address);
    const answer = await ask(pod, address);
    // A restore may have taken back what was visible before.
    if (answer === undefined || restores !== world.restores) continue;
    const possible = targetsSince(world, address, visible);
    world.require(
      possible.has(answer),
      () =>
        `${name} through ${pod.name} was told that ${ruleMatch} of ${address.path} stands for ${answer}; since ${visible} it was ${[...possible].join(", ")}`,
    );
  }
}

/** `undefined` when the call failed in a way that passes. */
async function ask(pod: Pod, address: ContextAddress): Promise<string | undefined> {
  try {
    const { steps } = await pod.call(pod.resolver.resolve(address, ["itx", "db"], address.path));
    return printTarget(["itx", ...steps]);
  } catch (error) {
    if (!isCodedError(error)) throw error;
    if (error.retryable) return undefined;
    if (error.code === "NO_ITX_EXPRESSION_MATCH") return "nothing";
    throw error;
  }
}

/** What the rule stood for after the event at `offset`, and what it was set to since. */
function targetsSince({ truth }: World, address: ContextAddress, offset: number): Set<string> {
  const targets = new Set<string>();
  let before = "nothing";
  for (const event of truth.eventsIn(address, 0, Infinity, [itx.rewriteRuleConfigured.type])) {
    const { target } = JSON.parse(event.payload!) as { readonly target: Expression | null };
    const shown = target === null ? "nothing" : printTarget(target);
    if (event.offset <= offset) before = shown;
    else targets.add(shown);
  }
  return targets.add(before);
}
