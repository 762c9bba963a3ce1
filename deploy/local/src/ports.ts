/**
 * Every port of the one-machine stack, as a distance from one base, and the address by which others reach it. All listen on
 * 127.0.0.1.
 */
import { isPortTaken } from "@iterate-platform/testing/free-port";

/** Distance of each listener from the base. */
const offsets = {
  "public-http": 0,
  "public-grpc": 1,
  projects: 2,
  ingress: 3,
  context: 10,
  runner: 11,
  "runner-isolate": 12,
  bundler: 13,
  telemetry: 14,
  "build-worker": 15,
  "otlp-grpc": 17,
  "otlp-http": 18,
  nats: 22,
  postgres: 32,
} as const;

export type Listener = keyof typeof offsets;

/** Listeners that are a service's internal gRPC; its internal HTTP and its admin HTTP lie at fixed distances. */
export type ServiceName = "ingress" | "context" | "runner" | "runner-isolate" | "bundler" | "build-worker" | "telemetry";

const httpDistance = 30;
const adminDistance = 50;
/** Ports a stack occupies from its base: the highest is build-worker's admin. */
export const portSpan = 70;

export const defaultPortBase = 7400;

export class Ports {
  constructor(readonly base: number) {}

  of(listener: Listener): number {
    return this.base + offsets[listener];
  }

  http(service: ServiceName): number {
    return this.of(service) + httpDistance;
  }

  admin(service: ServiceName): number {
    return this.of(service) + adminDistance;
  }
}

/** `127.0.0.1:<port>`, as listen variables take it. */
export function listenOn(port: number): string {
  return `127.0.0.1:${port}`;
}

/** `http://127.0.0.1:<port>`, as URL variables take it. */
export function urlOf(port: number): string {
  return `http://127.0.0.1:${port}`;
}

/**
 * The base named by ITERATE_PORT_BASE, else 7400.
 *
 * @throws Error when it names no usable base.
 */
export function portBaseFrom(env: NodeJS.ProcessEnv): number {
  const text = env.ITERATE_PORT_BASE;
  if (text === undefined || text === "") return defaultPortBase;
  const base = Number(text);
  if (!Number.isInteger(base) || base < 1_024 || base + portSpan > 65_535) {
    throw new Error(`ITERATE_PORT_BASE is ${JSON.stringify(text)}; set it to a whole number from 1024 to ${65_535 - portSpan}`);
  }
  return base;
}

/**
 * A base whose whole span is free now, below the range that outgoing connections take their ports from.
 *
 * @throws Error when none of 50 random ones is.
 */
export async function pickPortBase(random: () => number = Math.random): Promise<number> {
  for (let attempt = 0; attempt < 50; attempt++) {
    const base = 10_000 + Math.floor(random() * 220) * 100;
    const span = Array.from({ length: portSpan }, (_, distance) => base + distance);
    if (!(await Promise.all(span.map(isPortTaken))).includes(true)) return base;
  }
  throw new Error("no free range of ports was found for a private stack");
}
