/** The questions of `LogQueries` to a simulated log. */
import type { ContextAddress, ContextHead } from "../../src/log/contract.js";
import type {
  AppendName,
  BodyRange,
  CommittedAppend,
  LastCommit,
  LogQueries,
  MadeContext,
  OffsetRange,
  StoredBody,
  StoredControl,
  StoredHead,
  TakenKey,
} from "../../src/log/log-store.js";
import type { CommitRecord, ContextRecord, SimulatedLog, Transaction } from "./simulated-log.js";
import { Statements, unavailable, type Fate, type StoreWorld } from "./statements.js";

export class SimulatedQueries implements LogQueries {
  protected readonly log: SimulatedLog;
  protected readonly statements: Statements;

  constructor(log: SimulatedLog, world: StoreWorld) {
    this.log = log;
    this.statements = new Statements(world);
  }

  /** The transaction that the next statement is part of, if one is open. */
  protected get openTransaction(): Transaction | null {
    return null;
  }

  generation(): Promise<number> {
    return this.statements.send("generation", () => this.log.generation);
  }

  loadHeads(addresses: readonly ContextAddress[], reducerVersion: number): Promise<StoredHead[]> {
    return this.statements.send("loadHeads", () =>
      addresses.flatMap((address) => headOf(this.log.byAddress(address), reducerVersion)),
    );
  }

  loadHeadsById(contextIds: readonly number[], reducerVersion: number): Promise<StoredHead[]> {
    return this.statements.send("loadHeadsById", () => contextIds.flatMap((id) => headOf(this.log.byId(id), reducerVersion)));
  }

  lastCommits(contextIds: readonly number[]): Promise<LastCommit[]> {
    return this.statements.send("lastCommits", () => contextIds.flatMap((id) => lastOf(this.log.byId(id)?.last ?? null) ?? []));
  }

  controlEvents(ranges: readonly OffsetRange[], limit: number): Promise<StoredControl[]> {
    return this.statements.send("controlEvents", () => {
      const names = this.#typeNames();
      return ranges.flatMap(({ contextId, after, through }) =>
        (this.log.byId(contextId)?.events ?? [])
          .filter(({ offset, isControl }) => isControl && offset > after && offset <= through)
          .slice(0, limit)
          // As a join does: an event whose type has no name is in no answer.
          .flatMap(({ offset, type, formatVersion, payload }) => {
            const name = names.get(type);
            return name === undefined ? [] : [{ contextId, offset, type: name, formatVersion, payload }];
          }),
      );
    });
  }

  takenKeys(contextId: number, keys: readonly string[]): Promise<TakenKey[]> {
    return this.statements.send("takenKeys", () => keys.flatMap((key) => this.log.takenKey(contextId, key) ?? []));
  }

  committedAppends(appends: readonly AppendName[]): Promise<CommittedAppend[]> {
    return this.statements.send("committedAppends", () =>
      appends.flatMap(({ contextId, appendId }) => {
        const event = this.log.byId(contextId)?.appends.get(appendId);
        return event === undefined ? [] : [{ contextId, appendId, offset: event.offset, createdAtUs: event.createdAtUs }];
      }),
    );
  }

  storedBodies(ranges: readonly BodyRange[]): Promise<StoredBody[][]> {
    return this.statements.send("storedBodies", () => {
      const names = this.#typeNames();
      return ranges.map(({ contextId, firstOffset, count }) => {
        const context = this.log.byId(contextId);
        if (context === undefined) return [];
        const from = context.indexAfter(firstOffset - 1);
        return context.events.slice(from, from + count).flatMap(({ offset, appendId, type, payload, metadata, key }) => {
          const name = names.get(type);
          return name === undefined ? [] : [{ offset, appendId, type: name, payload, metadata, idempotencyKey: key }];
        });
      });
    });
  }

  makeContexts(contexts: readonly Pick<ContextHead, "address" | "partition">[]): Promise<MadeContext[]> {
    return this.statements.send("makeContexts", () =>
      contexts.flatMap(({ address, partition }) => this.log.makeContext(address, partition) ?? []),
    );
  }

  typeNumbers(names: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const open = this.openTransaction;
    return this.statements.send("typeNumbers", () => {
      const added = open?.types;
      return new Map(
        names.flatMap((name) => {
          const number = this.log.types.get(name) ?? added?.get(name);
          return number === undefined ? [] : [[name, number] as const];
        }),
      );
    });
  }

  addTypes(names: readonly string[]): Promise<void> {
    const open = this.openTransaction;
    return this.statements.send("addTypes", (fate) =>
      this.within(open, fate, async (transaction) => {
        for (const name of names.toSorted()) {
          if (this.log.types.has(name)) continue;
          await this.waitFor(transaction, `type ${name}`);
          this.log.addType(transaction, name);
        }
      }),
    );
  }

  /** Runs a change in the open transaction, or in one of its own that is committed after it. */
  protected async within<Answer>(
    open: Transaction | null,
    fate: Fate,
    change: (transaction: Transaction) => Promise<Answer>,
  ): Promise<Answer> {
    if (open !== null) return change(open);
    const own = this.log.begin();
    try {
      const answer = await change(own);
      if (own.xid !== null) await this.statements.time.sleep(fate.commitMs);
      if (own.isOver) throw unavailable();
      this.log.commit(own);
      return answer;
    } catch (error) {
      if (!own.isOver) this.log.abort(own);
      throw error;
    }
  }

  /** @throws CodedError UNAVAILABLE when the server stops meanwhile. */
  protected async waitFor(transaction: Transaction, name: string): Promise<void> {
    if (transaction.isOver) throw unavailable();
    await this.log.lock(transaction, name);
    if (transaction.isOver) throw unavailable();
  }

  #typeNames(): Map<number, string> {
    return new Map([...this.log.types].map(([name, type]) => [type, name]));
  }
}

export function lastOf(last: CommitRecord | null): LastCommit | null {
  if (last === null) return null;
  const { contextId, commitNo, lastOffset, reservedThrough, lastControl, runnerEpoch, generation } = last;
  return { contextId, commitNo, lastOffset, reservedThrough, lastControl, runnerEpoch, generation };
}

function headOf(context: ContextRecord | undefined, reducerVersion: number): StoredHead[] {
  if (context === undefined) return [];
  const { address, contextId, createdAtUs, commits } = context;
  const last = lastOf(context.last);
  const controlThrough = last === null ? null : (commits.get(last.lastControl)?.lastOffset ?? null);
  return [{ address, contextId, createdAtUs, last, controlThrough, core: context.coreRows(reducerVersion) }];
}
