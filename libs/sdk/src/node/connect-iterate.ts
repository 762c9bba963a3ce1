/** One authenticated session from a Node program. It does not reconnect: a lost connection fails every call with UNAVAILABLE. */
import { RpcSession, type RpcStub } from "capnweb";
import type { Credentials, IterateApi, SessionApi } from "../api/session.js";
import { toCodedError, type CodedError } from "../lib/coded-error.js";
import { openSocket } from "./open-socket.js";
import { SocketTransport } from "./socket-transport.js";

export interface ConnectIterateOptions {
  /** Where the deployment answers, for example `http://localhost:7400`. */
  readonly baseUrl: string;
  readonly auth: Credentials;
  /** Bound of connecting, and again of authenticating; default 10,000. */
  readonly timeoutMs?: number;
}

/** `using connection = await connectIterate(…)` closes the socket with the block, and with it every handle and subscription. */
export interface IterateConnection extends Disposable {
  readonly session: RpcStub<SessionApi>;
  /** Resolves with the reason when the connection is gone; never rejects. */
  readonly closed: Promise<CodedError>;
}

/**
 * Connects and authenticates. Calls on the session reject with `Error`s that have an own `code`; `errorCode` of `iterate/lib` reads it.
 * Throws INVALID_INPUT, NOT_FOUND, FORBIDDEN, UNAUTHENTICATED, INVALID_CREDENTIALS, or UNAVAILABLE (may be retried).
 */
export async function connectIterate({ baseUrl, auth, timeoutMs = 10_000 }: ConnectIterateOptions): Promise<IterateConnection> {
  const socket = await openSocket(baseUrl, timeoutMs);
  const transport = new SocketTransport(socket, baseUrl);
  const api = new RpcSession<IterateApi>(transport).getRemoteMain();
  const impatience = setTimeout(() => socket.terminate(), timeoutMs);
  try {
    const session = await api.authenticate(auth);
    return {
      session,
      closed: transport.closed,
      [Symbol.dispose]: () => {
        session[Symbol.dispose]();
        api[Symbol.dispose]();
      },
    };
  } catch (thrown) {
    api[Symbol.dispose]();
    throw toCodedError(thrown, "UNAVAILABLE");
  } finally {
    clearTimeout(impatience);
  }
}
