/** Folds GitHub's deliveries into a board and says which labels a new issue or pull request should have. */
import { StreamProcessorDurableObject } from "iterate/sdk";
import { StreamProcessor, type ProcessEventArgs, type ProcessorState, type ReduceArgs } from "iterate/stream/processor";
import { labelledType, Triage, type BoardItem } from "./contract.js";
import { sighting, type Sighting } from "./github.js";
import { labelsFor } from "./rules.js";

export type Board = ProcessorState<typeof Triage>;

/** The board stays far below the largest state a processor may keep. */
const maxItems = 1000;

const maxTitleLength = 300;

export class TriageProcessor extends StreamProcessor<typeof Triage> {
  override readonly contract = Triage;

  override reduce({ event, state }: ReduceArgs<typeof Triage>): Board {
    if (event.type === labelledType) {
      const { item, labels } = event.payload;
      const known = state.items[item];
      return known === undefined
        ? state
        : { ...state, items: { ...state.items, [item]: { ...known, suggested: labels.map(({ label }) => label) } } };
    }
    const { delivery, body } = event.payload;
    const counted = {
      ...state,
      deliveries: state.deliveries + 1,
      byName: { ...state.byName, [delivery.name]: (state.byName[delivery.name] ?? 0) + 1 },
    };
    const seen = sighting(delivery.name, body);
    return seen === null ? counted : { ...counted, items: withItem(state.items, seen) };
  }

  override processEvent({ event, emit }: ProcessEventArgs<typeof Triage>): void {
    if (event === null || event.type === labelledType) return;
    const { delivery, body } = event.payload;
    const seen = sighting(delivery.name, body);
    if (seen === null || seen.action !== "opened") return;
    const labels = labelsFor(seen);
    if (labels.length === 0) return;
    emit({
      type: labelledType,
      payload: { item: nameOf(seen), kind: seen.kind, title: seen.title.slice(0, maxTitleLength), url: seen.url, labels },
      idempotencyKey: this.idempotencyKey("labeled", event),
    });
  }
}

export class TriageDurableObject extends StreamProcessorDurableObject {
  override readonly processor = new TriageProcessor();
}

export const nameOf = ({ repo, number }: Pick<Sighting, "repo" | "number">): string => `${repo}#${number}`;

/** A delivery that is older than what the board shows (they may come out of order) changes nothing but is counted. */
function withItem(items: Board["items"], seen: Sighting): Board["items"] {
  const name = nameOf(seen);
  const known = items[name];
  if (seen.action === "deleted" || seen.action === "transferred") {
    const { [name]: _gone, ...rest } = items;
    return rest;
  }
  if (known !== undefined && known.updatedAt > seen.updatedAt) return items;
  const { kind, repo, number, url, author, state, labels, openedAt, updatedAt } = seen;
  const next: BoardItem = {
    kind,
    repo,
    number,
    title: seen.title.slice(0, maxTitleLength),
    url,
    author,
    state,
    labels: [...labels],
    suggested: known?.suggested ?? [],
    openedAt,
    updatedAt,
  };
  return bounded({ ...items, [name]: next });
}

/** Drops what was finished longest ago, then what was touched longest ago. */
function bounded(items: Board["items"]): Board["items"] {
  const entries = Object.entries(items);
  if (entries.length <= maxItems) return items;
  const rank = ([, item]: [string, BoardItem]): string => `${item.state === "open" ? 1 : 0}${item.updatedAt}`;
  entries.sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
  return Object.fromEntries(entries.slice(entries.length - maxItems));
}
