/** The invocations that one process is running, and which of them a secret, an output line or a refused request belongs to. */
import { Invocation, type InvocationSink } from "./invocation.js";
import type { InvocationLimits, IsolateLimits } from "./limits.js";
import { parseOutputLine, type LogRecord } from "./log-record.js";

export class OpenInvocations {
  readonly #limits: IsolateLimits;
  readonly #bySecret = new Map<string, Invocation>();
  readonly #byOrdinal = new Map<number, Invocation>();
  #lastOrdinal = 0;

  constructor(limits: IsolateLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#bySecret.size;
  }

  all(): Invocation[] {
    return [...this.#bySecret.values()];
  }

  add(id: string, limits: InvocationLimits, sink: InvocationSink): Invocation {
    const invocation = new Invocation({ id, ordinal: ++this.#lastOrdinal, limits, table: this.#limits, sink });
    this.#bySecret.set(invocation.secret, invocation);
    this.#byOrdinal.set(invocation.ordinal, invocation);
    return invocation;
  }

  remove(invocation: Invocation): void {
    this.#bySecret.delete(invocation.secret);
    this.#byOrdinal.delete(invocation.ordinal);
  }

  withSecret(secret: string): Invocation | undefined {
    return this.#bySecret.get(secret);
  }

  /** A line of the process's structured log. */
  output(line: string): void {
    const parsed = parseOutputLine(line, Date.now() * 1_000);
    if (parsed?.kind === "drained") this.#byOrdinal.get(parsed.ordinal)?.markDrained();
    if (parsed?.kind === "record") this.log(parsed.record, parsed.ordinal);
  }

  /** A record without a number, from outside any scope, belongs to whichever invocations are open: each is told. */
  log(record: LogRecord, ordinal: number | undefined): void {
    if (ordinal !== undefined) this.#byOrdinal.get(ordinal)?.log(record);
    else for (const invocation of this.#bySecret.values()) invocation.log(record);
  }
}
