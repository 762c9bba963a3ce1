/**
 * The calls of one invocation to the platform: one WebSocket, opened at the first call, on which calls overlap. A message is a JSON
 * head, a newline and a JSON body: [id, method, path] with the argument list one way, [id, succeeded] with the value or the failure
 * back. The supervisor passes bodies on without reading them.
 */

export interface HostBinding {
  fetch(
    url: string,
    init: { headers: Record<string, string> },
  ): Promise<{ status: number; webSocket: HostSocket | null; text(): Promise<string> }>;
}

interface HostSocket {
  accept(): void;
  send(message: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "message" | "close" | "error", listener: (event: { data?: unknown; reason?: string }) => void): void;
}

interface PendingCall {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

export class HostSession {
  readonly #host: HostBinding;
  readonly #invocation: string;
  readonly #pending = new Map<number, PendingCall>();
  #socket: Promise<HostSocket> | undefined;
  #lastId = 0;
  #closed: Error | undefined;

  /** `invocation` is what the supervisor knows this invocation by; it opens nothing once the invocation is over. */
  constructor(host: HostBinding, invocation: string) {
    this.#host = host;
    this.#invocation = invocation;
  }

  /** @throws CANCELLED once the invocation is over; else what the platform answers, an `Error` with own `code` and `data`. */
  async call(method: string, args: readonly unknown[], path: string): Promise<unknown> {
    const body = JSON.stringify(args);
    const socket = await (this.#socket ??= this.#open());
    if (this.#closed !== undefined) throw this.#closed;
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      socket.send(`${JSON.stringify([id, method, path])}\n${body}`);
    });
  }

  /** Every call in flight or made later rejects with CANCELLED. */
  close(): void {
    this.#end("The invocation is over: its itx takes no more calls.");
    this.#socket?.then((socket) => socket.close(1000)).catch(() => undefined);
  }

  async #open(): Promise<HostSocket> {
    if (this.#closed !== undefined) throw this.#closed;
    const answer = await this.#host.fetch("http://host/itx", {
      headers: { upgrade: "websocket", "x-iterate-invocation": this.#invocation },
    });
    const socket = answer.webSocket;
    if (socket === null) throw failure("CANCELLED", await answer.text());
    socket.addEventListener("message", (event) => this.#settle(String(event.data)));
    socket.addEventListener("close", (event) => this.#end(event.reason || "The platform closed the session of this invocation."));
    socket.addEventListener("error", () => this.#end("The session of this invocation was cut."));
    socket.accept();
    return socket;
  }

  #settle(message: string): void {
    const split = message.indexOf("\n");
    const [id, succeeded] = JSON.parse(message.slice(0, split)) as [number, boolean];
    const call = this.#pending.get(id);
    this.#pending.delete(id);
    const body: unknown = JSON.parse(message.slice(split + 1));
    if (succeeded) call?.resolve(body);
    else {
      const { code, message: text, data } = body as { code: string; message: string; data: unknown };
      call?.reject(failure(code, text, data));
    }
  }

  #end(message: string): void {
    this.#closed ??= failure("CANCELLED", message);
    for (const call of this.#pending.values()) call.reject(this.#closed);
    this.#pending.clear();
  }
}

function failure(code: string, message: string, data: unknown = {}): Error {
  return Object.assign(new Error(message), { code, data });
}
