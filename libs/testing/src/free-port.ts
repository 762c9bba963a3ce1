/**
 * Ports of the loopback interface for servers that cannot be told to pick one themselves.
 */
import { createServer, type AddressInfo } from "node:net";

/**
 * A TCP port of 127.0.0.1 that was free a moment ago. Somebody else may take it before it is used: whoever starts a server on
 * it tries again with another port when it turns out busy.
 */
export async function freePort(): Promise<number> {
  const server = createServer();
  return await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

/** Whether something accepts connections on that port of 127.0.0.1. */
export async function isPortTaken(port: number): Promise<boolean> {
  const server = createServer();
  return await new Promise((resolve) => {
    server.once("error", () => resolve(true));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(false)));
  });
}

/** The port asked for is taken by another process. */
export class PortBusyError extends Error {
  constructor(readonly port: number) {
    super(`port ${port} of 127.0.0.1 is taken by another process`);
    this.name = "PortBusyError";
  }
}
