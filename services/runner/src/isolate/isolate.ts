/**
 * An isolate: one workerd process, its two sockets, and the invocations it is running. Whatever ends the process, each invocation in
 * flight is told once, by `endingError`. While work is in flight the process is looked at every `heartbeatMs`.
 */
import { randomBytes } from "node:crypto";
import type { Server } from "node:http";
import type { CodedError } from "iterate/lib";
import { codedError, isCodedError } from "iterate/lib";
import { Client, Pool, type Dispatcher } from "undici";
import type { Bundle } from "./bundle.js";
import { egressListener } from "./egress-listener.js";
import { endingError, type Ending } from "./ending.js";
import { harnessSource } from "./harness-source.js";
import { hostListener } from "./host-listener.js";
import type { Invocation, InvocationSink } from "./invocation.js";
import type { InvocationLimits, IsolateLimits } from "./limits.js";
import { OpenInvocations } from "./open-invocations.js";
import type { IsolatePrograms } from "./platform.js";
import { ProcessFolder } from "./process-folder.js";
import { Watchdog } from "./watchdog.js";
import { WorkerdProcess } from "./workerd-process.js";

export interface IsolateDeps {
  readonly limits: IsolateLimits;
  readonly programs: IsolatePrograms;
}

/** What the harness is told about an invocation. */
export interface Surroundings {
  readonly contextPath: string;
  readonly callerPath: string;
}

export type Operation = "describe" | "process-batch" | "fetch" | "drain";

export class Isolate {
  readonly bundle: Bundle;
  readonly #process: WorkerdProcess;
  readonly #limits: IsolateLimits;
  readonly #calls: Pool;
  readonly #pings: Client;
  readonly #watchdog: Watchdog;
  readonly #open: OpenInvocations;
  #looking: NodeJS.Timeout | undefined;
  #ending: Ending | undefined;

  private constructor(
    bundle: Bundle,
    limits: IsolateLimits,
    process: WorkerdProcess,
    folder: ProcessFolder,
    open: OpenInvocations,
  ) {
    this.bundle = bundle;
    this.#open = open;
    this.#limits = limits;
    this.#process = process;
    this.#watchdog = new Watchdog(limits, process.stat ?? { cpuMs: 0, residentBytes: 0 });
    const untimed = { headersTimeout: 0, bodyTimeout: 0, socketPath: folder.sockets.inPath };
    this.#calls = new Pool("http://isolate", { ...untimed, connections: limits.invocationsPerProcess + 1 });
    // Of its own, so that a ping never waits behind a call.
    this.#pings = new Client("http://isolate", untimed);
  }

  /** @throws ISOLATE_START when the bundle does not load; UNAVAILABLE when the machine cannot spawn. */
  static async start(bundle: Bundle, { limits, programs }: IsolateDeps): Promise<Isolate> {
    const folder = await ProcessFolder.create();
    const token = randomBytes(24).toString("base64url");
    const open = new OpenInvocations(limits);
    const host = hostListener({ token, limits, invocation: (secret) => open.withSecret(secret) });
    const egress = egressListener((record, ordinal) => open.log(record, ordinal));
    const close = async () => {
      for (const server of [host, egress]) closeNow(server);
      await folder.remove();
    };
    try {
      await Promise.all([listen(host, folder.sockets.hostPath), listen(egress, folder.sockets.egressPath)]);
      const harness = await harnessSource();
      const onOutput = (line: string) => open.output(line);
      const process = await WorkerdProcess.start({ bundle, harness, token, limits, programs, folder, onOutput });
      const isolate = new Isolate(bundle, limits, process, folder, open);
      void isolate.#untilEnded(close);
      return isolate;
    } catch (thrown) {
      await close();
      throw thrown;
    }
  }

  /** Invocations in flight. */
  get inFlight(): number {
    return this.#open.size;
  }

  /** False once the process is ending: it takes no more invocations. */
  get isAlive(): boolean {
    return this.#ending === undefined;
  }

  get pid(): number {
    return this.#process.pid;
  }

  /** Resident bytes now; 0 once the process is gone. */
  get residentBytes(): number {
    return this.#process.stat?.residentBytes ?? 0;
  }

  /** Resolves once the process is reaped and its folder removed. */
  get ended(): Promise<Ending> {
    return this.#process.ended;
  }

  /** Kills the process; invocations in flight end as `endingError` says. Resolves once it is reaped. */
  async end(ending: Ending = { kind: "retired" }): Promise<void> {
    this.#ending ??= ending;
    this.#process.end(ending);
    await this.ended;
  }

  /** The invocation is open, and counted against the process, until `close`. @throws ISOLATE_LOST when the process is ending. */
  open(id: string, limits: InvocationLimits, sink: InvocationSink): Invocation {
    if (this.#ending !== undefined) throw endingError(this.#ending, 0, this.#limits);
    const invocation = this.#open.add(id, limits, sink);
    this.#looking ??= setInterval(() => this.#look(), this.#limits.heartbeatMs);
    return invocation;
  }

  close(invocation: Invocation): void {
    // After a deadline or a cancellation nobody knows whether the code has stopped: the watchdog asks until it is answered.
    if (invocation.signal.aborted) this.#watchdog.suspect();
    invocation.end();
    this.#open.remove(invocation);
  }

  /**
   * Sends one request of an invocation into the process. The answer is hostile. Aborted with the invocation.
   * @throws the error that the invocation ended with.
   */
  async request(
    invocation: Invocation,
    operation: Operation,
    head: Surroundings & Record<string, string>,
    exchange: Partial<Dispatcher.RequestOptions> = {},
  ): Promise<Dispatcher.ResponseData> {
    const scope = JSON.stringify({ ordinal: invocation.ordinal, logBytes: this.#limits.logBytes, ...head });
    const internal = [
      ["x-iterate-operation", operation],
      ["x-iterate-invocation", invocation.secret],
      ["x-iterate-scope", Buffer.from(scope).toString("base64url")],
    ].flat();
    try {
      return await this.#calls.request({
        path: "/",
        method: "POST",
        signal: invocation.signal,
        ...exchange,
        headers: [...((exchange.headers as string[] | undefined) ?? []), ...internal],
      });
    } catch (thrown) {
      throw await this.failure(invocation, thrown);
    }
  }

  /** Resolves once the invocation's records are all here, or 250 ms later: a record is worth waiting for, not worth holding an end. */
  async drained(invocation: Invocation): Promise<void> {
    await Promise.race([invocation.drained, this.ended, new Promise((resolve) => setTimeout(resolve, 250).unref())]);
  }

  /** What to tell about an exchange that broke: why the invocation ended, or why the process did. */
  async failure(invocation: Invocation, thrown: unknown): Promise<CodedError> {
    if (invocation.signal.aborted) return invocation.signal.reason as CodedError;
    if (isCodedError(thrown)) return thrown;
    // The socket breaks before the process is reaped; what the reaping tells is the better answer.
    await Promise.race([this.ended, new Promise((resolve) => setTimeout(resolve, 250).unref())]);
    if (invocation.signal.aborted) return invocation.signal.reason as CodedError;
    return noAnswer();
  }

  async #untilEnded(close: () => Promise<void>): Promise<void> {
    const ending = await this.ended;
    this.#ending = ending;
    clearInterval(this.#looking);
    const open = this.#open.all();
    for (const invocation of open) invocation.end(endingError(ending, open.length, this.#limits));
    await Promise.allSettled([this.#calls.destroy(), this.#pings.destroy(), close()]);
  }

  #look(): void {
    const stat = this.#process.stat;
    if (stat === undefined) return;
    const verdict = this.#watchdog.look({ ...stat, nowMs: performance.now() });
    if (verdict === "loop" || verdict === "hang" || verdict === "memory") void this.end({ kind: verdict });
    else if (verdict === "ping") void this.#ping();
    else if (this.inFlight === 0 && !this.#watchdog.isAsking) {
      clearInterval(this.#looking);
      this.#looking = undefined;
    }
  }

  async #ping(): Promise<void> {
    try {
      const answer = await this.#pings.request({ path: "/", method: "GET", headers: { "x-iterate-operation": "ping" } });
      await answer.body.dump();
      this.#watchdog.answered();
    } catch {
      // The process is ending, or the watchdog will find that it does not answer.
    }
  }
}

/** A living process ends an exchange by itself when the code waits for nothing that could still happen. */
export function noAnswer(): CodedError {
  return codedError("CODE_FAILED", "The code never answered: it waits for a promise that nothing will settle.");
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => server.once("error", reject).listen(path, () => resolve()));
}

function closeNow(server: Server): void {
  server.close();
  server.closeAllConnections();
}
