/** A checkpoint and its outbox in memory. */
import type { ProcessorCheckpoint, ProcessorStorage } from "../engine-ports.js";
import type { EventInput } from "../event.js";

export interface MemoryStorage<State = unknown> extends ProcessorStorage<State> {
  readonly checkpoint: ProcessorCheckpoint<State> | null;
  /** How often a checkpoint was written. */
  readonly writes: number;
  /** Emits kept and not yet taken, in order. */
  readonly outbox: readonly EventInput[];
  /** Empties the outbox. */
  takeOutbox(): EventInput[];
}

/** Keeps JSON text, as a database would, so a state that is not JSON shows in the test. */
export function memoryStorage<State = unknown>(initial: ProcessorCheckpoint<State> | null = null): MemoryStorage<State> {
  let kept = initial === null ? null : JSON.stringify(initial);
  let writes = 0;
  const outbox: EventInput[] = [];
  const read = (): ProcessorCheckpoint<State> | null => (kept === null ? null : (JSON.parse(kept) as ProcessorCheckpoint<State>));
  return {
    get checkpoint() {
      return read();
    },
    get writes() {
      return writes;
    },
    outbox,
    takeOutbox: () => outbox.splice(0),
    read: async () => read(),
    write: async (checkpoint, emits) => {
      kept = JSON.stringify(checkpoint);
      writes += 1;
      outbox.push(...emits);
    },
  };
}
