/** The services as the chart names them, and who calls whom by design: the suites hold the rendered objects to this. */

/** Workload, its block of values, and the program's Dockerfile. */
export const services = {
  ingress: { block: "ingress", image: "ingress", calls: ["context", "runner", "bundler", "telemetry"] },
  context: { block: "context", image: "context", calls: ["runner", "bundler", "ingress", "telemetry"] },
  runner: { block: "runner", image: "runner", calls: ["context", "bundler", "ingress", "runner-isolate", "telemetry"] },
  "runner-isolate": { block: "runnerIsolate", image: "runner", calls: [] },
  bundler: { block: "bundler", image: "bundler", calls: ["context", "build-worker", "telemetry"] },
  "build-worker": { block: "buildWorker", image: "bundler", calls: [] },
  telemetry: { block: "telemetry", image: "telemetry", calls: ["telemetry"] },
} as const satisfies Record<string, { block: string; image: string; calls: readonly string[] }>;

export type ServiceName = keyof typeof services;

export const serviceNames = Object.keys(services) as ServiceName[];

/** Those that run beside untrusted code: they hold nothing usable and call nobody. */
export const untrusted: readonly ServiceName[] = ["runner-isolate", "build-worker"];
