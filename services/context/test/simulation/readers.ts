/** Clients that read: pages, heads, streams that are followed over processes, and the feed of a partition. Each answer is checked. */
import { isCodedError } from "iterate/lib";
import type { ContextAddress } from "../../src/log/contract.js";
import type { PageBounds } from "../../src/log/page.js";
import type { Pod } from "./pod.js";
import type { Random } from "./random.js";
import { addresses, ordinaryTypes, partitionIn } from "./scenery.js";
import type { World } from "./world.js";

/** What `work` answers; `undefined` when it failed in a way that passes. */
async function attempt<Answer>(work: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isCodedError(error) && error.retryable) return undefined;
    throw error;
  }
}

function pickTypes(random: Random): string[] {
  return random.chance(0.5) ? [] : ordinaryTypes.filter(() => random.chance(0.5)).slice(0, 2);
}

/** Reads pages and heads of any context through any process. */
export async function runReader(world: World, random: Random, name: string): Promise<void> {
  const pauseMs = random.pick([20, 200]);
  while (world.isOpen) {
    await world.time.sleep(random.next() * pauseMs);
    const pod = world.pickPod(random);
    if (pod === undefined) continue;
    const address = world.pickAddress(random);
    const visible = world.truth.headOf(address);
    const who = `${name} through ${pod.name}`;
    if (random.chance(0.3)) {
      const head = await attempt(pod.call(pod.heads.confirm(address)));
      if (head === undefined) continue;
      world.truth.checkHead(who, head);
      world.require(
        head.lastOffset >= visible,
        () => `${who} was told that ${address.path} ends at ${head.lastOffset}, behind ${visible}`,
      );
      continue;
    }
    const after = random.chance(0.5) ? Math.max(0, visible - random.between(0, 8)) : random.between(0, visible + 2);
    const types = pickTypes(random);
    const bounds: PageBounds = { limit: random.pick([1, 3, 50]), maxBytes: random.pick([100, 100_000]) };
    const reader = random.chance(0.3) ? pod.mixed : pod.reader;
    const page = await attempt(pod.call(reader.read(address, after, types, bounds)));
    if (page === undefined) continue;
    world.truth.checkPage(who, address, after, types, page);
    world.require(
      !page.isAtHead || page.scannedThrough >= visible || after > visible,
      () => `${who} was told that ${page.scannedThrough} is the head of ${address.path}, behind ${visible}`,
    );
  }
}

/** Follows one context for as long as the run lasts: through one process after the other, from where it was. */
export async function runFollower(world: World, random: Random, name: string): Promise<void> {
  const address = world.pickAddress(random);
  const types = pickTypes(random);
  const heard = random.chance(0.4) ? "all" : "stored";
  let position: number | undefined = random.chance(0.5) ? 0 : undefined;
  // Schedules go on for ever: followed is what was there when the run was over.
  let end: number | undefined;
  const isCaughtUp = (): boolean => {
    if (world.isOpen) return false;
    end ??= world.truth.headOf(address);
    return position !== undefined && position >= end;
  };
  while (!isCaughtUp()) {
    await world.time.sleep(random.next() * 50);
    const pod = world.pickPod(random);
    if (pod === undefined) continue;
    position = await followThrough(world, random, { name, pod, address, types, heard, position, isCaughtUp });
  }
}

interface Following {
  readonly name: string;
  readonly pod: Pod;
  readonly address: ContextAddress;
  readonly types: readonly string[];
  readonly heard: "stored" | "all";
  readonly position: number | undefined;
  readonly isCaughtUp: () => boolean;
}

async function followThrough(world: World, random: Random, following: Following): Promise<number | undefined> {
  const { name, pod, address, types, heard, isCaughtUp } = following;
  const who = `${name} through ${pod.name}`;
  const leaving = new AbortController();
  const left = new Error("the reader left");
  const cancel = world.time.after(random.between(500, 8_000), () => leaving.abort(left));
  const visible = world.truth.headOf(address);
  const stream = pod.streams.follow({ address, after: following.position, types, heard }, leaving.signal);
  let { position } = following;
  let shown = 0;
  try {
    while (!isCaughtUp()) {
      const step = await pod.call(stream.next());
      if (step.done === true) break;
      const page = step.value;
      if (position === undefined) {
        // Followed from the head as of some moment after the call.
        const start =
          page.events.length === 0 ? page.scannedThrough : Math.min(page.scannedThrough, Number(page.events[0]!.offset) - 1);
        world.require(start >= visible, () => `${who} follows ${address.path} from ${start}, behind ${visible}`);
        world.truth.checkPage(who, address, start, types, page);
      } else {
        world.require(
          page.scannedThrough >= position,
          () => `${who} went back from ${position} to ${page.scannedThrough} of ${address.path}`,
        );
        world.truth.checkPage(who, address, position, types, page);
      }
      for (const { offset } of page.events) {
        world.require(offset > shown, () => `${who} was shown ${offset} of ${address.path} after ${shown}`);
        shown = Number(offset);
      }
      position = page.scannedThrough;
      if (random.chance(0.1)) await world.time.sleep(random.between(1, 1_500));
    }
  } catch (error) {
    if (error !== left && !(isCodedError(error) && error.retryable)) throw error;
  } finally {
    cancel();
    leaving.abort(left);
  }
  return position;
}

/** Reads the feed of one partition from its start: every commit once, and none missing where it says that it is at the head. */
export async function runFeedReader(world: World, random: Random, partition: number): Promise<void> {
  let after = "";
  let seen = new Set<string>();
  let restores = world.restores;
  const all = (): string[] =>
    addresses.flatMap((address) =>
      partitionIn(address) === partition
        ? [...(world.log.byAddress(address)?.commits.keys() ?? [])].map((no) => `${address.path}@${no}`)
        : [],
    );
  for (let isAtEnd = false; !isAtEnd;) {
    await world.time.sleep(random.next() * 300);
    const pod = world.pickPod(random);
    if (pod === undefined) continue;
    const visible = all();
    const page = await attempt(pod.listCommits(partition, after, random.pick([1, 5, 100])));
    if (page === undefined) continue;
    if (restores !== world.restores) {
      // The feed begins anew after a restore; a page of before says nothing.
      restores = world.restores;
      seen = new Set();
      continue;
    }
    for (const { context, commitNo } of page.commits) {
      const commit = `${context!.path}@${commitNo}`;
      world.require(!seen.has(commit), () => `the feed of partition ${partition} answers ${commit} again`);
      const before = `${context!.path}@${commitNo - 1n}`;
      world.require(
        commitNo === 1n || seen.has(before),
        () => `the feed of partition ${partition} answers ${commit} before ${before}`,
      );
      seen.add(commit);
    }
    after = page.next;
    const missing = page.isAtHead ? visible.filter((commit) => !seen.has(commit)) : [];
    world.require(missing.length === 0, () => `the feed of partition ${partition} is at its head without ${missing.join(" ")}`);
    isAtEnd = page.isAtHead && !world.isOpen && all().every((commit) => seen.has(commit));
  }
}
