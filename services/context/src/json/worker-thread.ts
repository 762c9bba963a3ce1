/**
 * Examines bodies of more than 256 KiB beside the event loop: 8 MiB take some 40 ms, in which nobody else's append would move.
 * One thread serves the process, in order; it is started at first use and started again if it dies.
 */
import { Worker } from "node:worker_threads";
import { CodedError } from "iterate/lib";
import { examineBody, type Body, type BodyVerdict } from "./body.js";

/** Bodies up to this many bytes are examined at once, where they are. */
export const inlineJsonBytes = 256 * 1024;

/** Bytes of bodies that wait for the thread; beyond it appends are refused for now. */
const maxWaitingBytes = 256 * 1024 * 1024;

interface Waiting {
  readonly bytes: number;
  readonly resolve: (verdict: BodyVerdict) => void;
  readonly reject: (error: CodedError) => void;
}

export class JsonThread {
  #worker: Worker | null = null;
  readonly #waiting = new Map<number, Waiting>();
  #waitingBytes = 0;
  #lastId = 0;

  /** Bodies examined in the thread so far. */
  get examined(): number {
    return this.#lastId;
  }

  /**
   * The verdict on a body: at once for a small one.
   *
   * @throws CodedError OVERLOADED when too much waits; UNAVAILABLE when the thread died. Both are retryable.
   */
  examine(body: Body): BodyVerdict | Promise<BodyVerdict> {
    const bytes = (body.payload?.length ?? 0) + (body.metadata?.length ?? 0);
    if (bytes <= inlineJsonBytes) return examineBody(body);
    if (this.#waitingBytes + bytes > maxWaitingBytes) {
      throw new CodedError("OVERLOADED", `${this.#waitingBytes} bytes of large bodies wait to be examined already`, {
        retryAfterMs: 200,
      });
    }
    this.#worker ??= this.#start();
    const id = ++this.#lastId;
    this.#waitingBytes += bytes;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { bytes, resolve, reject });
      this.#worker!.postMessage({ id, body });
    });
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  #start(): Worker {
    const url = import.meta.url.endsWith(".ts") ? new URL("./worker.ts", import.meta.url) : new URL("./worker.js", import.meta.url);
    // From sources the thread needs the loader that the process itself may have got in another way.
    const worker = new Worker(
      url,
      url.pathname.endsWith(".ts") ? { execArgv: ["--conditions=iterate-source", "--import", import.meta.resolve("tsx")] } : {},
    );
    worker.unref();
    worker.on("message", ({ id, verdict }: { id: number; verdict: BodyVerdict }) => this.#settle(id)?.resolve(verdict));
    worker.on("error", () => this.#lose(worker));
    worker.on("exit", () => this.#lose(worker));
    return worker;
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return undefined;
    this.#waiting.delete(id);
    this.#waitingBytes -= waiting.bytes;
    return waiting;
  }

  #lose(worker: Worker): void {
    if (this.#worker !== worker) return;
    this.#worker = null;
    for (const id of [...this.#waiting.keys()]) {
      this.#settle(id)?.reject(new CodedError("UNAVAILABLE", "the thread that examines large bodies ended", { retryAfterMs: 100 }));
    }
  }
}
