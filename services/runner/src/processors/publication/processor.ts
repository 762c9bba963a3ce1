/** Decides what to publish and when; how is the publisher's. Acts at the head of the log alone, so only the newest commit is built. */
import { repo } from "iterate/events";
import { StreamProcessor, type ProcessBatchEndArgs, type ReduceArgs } from "iterate/stream/processor";
import { publicationContract, type Candidate, type Publication, type RowName } from "./contract.js";

/** How a candidate ended. */
export type Outcome =
  { readonly status: "published"; readonly subscriptions: readonly RowName[] } | { readonly status: "failed" | "superseded" };

/** Publishes one commit. Safe to repeat: a candidate that is published already is published. */
export interface Publisher {
  /** @throws what passes by itself; then the candidate is still owed. */
  publish(candidate: Candidate, former: readonly RowName[]): Promise<Outcome>;
  /** Records that a newer commit came first. */
  supersede(candidate: Candidate, by: Candidate): Promise<void>;
}

/** The branch that is published. */
const publishedBranch = "main";

export class PublicationProcessor extends StreamProcessor<typeof publicationContract> {
  readonly contract = publicationContract;
  readonly #publisher: Publisher;

  constructor(publisher: Publisher) {
    super();
    this.#publisher = publisher;
  }

  override reduce({ event, state }: ReduceArgs<typeof publicationContract>): Publication {
    if (event.type === repo.commitCompleted.type) {
      const { branch, commitOid } = repo.commitCompleted.payload.parse(event.payload);
      return branch === publishedBranch
        ? { ...state, candidates: [...state.candidates, { offset: event.offset, commitOid }] }
        : state;
    }
    const { requestOffset, status, subscriptions } = repo.publicationSettled.payload.parse(event.payload);
    return {
      candidates: state.candidates.filter(({ offset }) => offset !== requestOffset),
      subscriptions: status === "published" ? (subscriptions ?? []) : state.subscriptions,
    };
  }

  override processBatchEnd({ state, delivery, emit, blockProcessorWhile }: ProcessBatchEndArgs<typeof publicationContract>): void {
    const newest = state.candidates.at(-1);
    if (!delivery.caughtUp || newest === undefined) return;
    const settled = (offset: number, outcome: Outcome): void =>
      emit({
        type: repo.publicationSettled.type,
        idempotencyKey: `repo/publication-settled:${offset}`,
        payload: {
          requestOffset: offset,
          status: outcome.status,
          ...(outcome.status === "published" ? { subscriptions: [...outcome.subscriptions] } : {}),
        },
      });
    for (const candidate of state.candidates.slice(0, -1)) {
      blockProcessorWhile(async () => {
        await this.#publisher.supersede(candidate, newest);
        settled(candidate.offset, { status: "superseded" });
      });
    }
    blockProcessorWhile(async () => settled(newest.offset, await this.#publisher.publish(newest, state.subscriptions)));
  }
}
