/**
 * One container of a rendered pod, run by podman as the cluster would run it: its image, command, variables, credentials, memory and
 * security settings. It shares the machine's network, so its listeners take free ports of the loopback and say which.
 */
import { execFileSync, spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { V1Container } from "@kubernetes/client-node";
import { objectOf, type KubernetesObject } from "./kubernetes-objects.js";

/** What a cluster would add to the rendered objects. */
export interface Surroundings {
  /** Folder with the files of the credentials, by key. */
  credentials: string;
  /** Values of Secrets that are variables, and of addresses that the machine has others for. */
  variables: Readonly<Record<string, string>>;
}

/** How long a process may take until it serves, or ends when told to. */
const boundMs = 90_000;

/** Flags that let podman run without systemd, and inside a virtual machine whose limits are lower than its defaults. */
const onThisMachine = ["--runtime", "runc", "--cgroup-manager", "cgroupfs"];
const limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000", "--no-healthcheck"];

/** What a command prints, run in an image as its user. @throws Error when it fails. */
export function runInImage(image: string, [program, ...args]: readonly [string, ...string[]]): string {
  const flags = [...onThisMachine, "run", "--rm", "--network", "none", ...limits, "--read-only", "--cap-drop", "ALL"];
  return execFileSync("podman", [...flags, "--entrypoint", program, image, ...args], { encoding: "utf8", timeout: boundMs });
}

export class Container {
  readonly lines: string[] = [];
  readonly #name: string;
  readonly #process: ChildProcess;
  readonly exited: Promise<number>;
  #ports = Promise.withResolvers<Record<string, number>>();

  /** Starts a service's container, or with `migrate` the one that runs before it. */
  constructor(objects: readonly KubernetesObject[], service: string, role: "serve" | "migrate", surroundings: Surroundings) {
    this.#name = `iterate-test-${service}-${process.pid}-${role}`;
    const pod = objectOf(objects, "Deployment", service).spec!.template.spec!;
    const container = role === "serve" ? pod.containers[0]! : pod.initContainers![0]!;
    const variables = variablesOf(container, objectOf(objects, "ConfigMap", service).data, surroundings);
    const [entrypoint, ...command] = container.command ?? [];
    const args = [
      ...onThisMachine,
      ...["run", "--rm", "--name", this.#name, "--network", "host", ...limits],
      ...["--read-only", "--tmpfs", "/tmp:rw,exec,mode=1777", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"],
      ...["--user", `${pod.securityContext!.runAsUser}:${pod.securityContext!.runAsGroup}`],
      ...["--memory", container.resources!.limits!["memory"]!.replace("i", "").toLowerCase()],
      ...["--volume", `${surroundings.credentials}:/etc/iterate:ro`],
      ...Object.entries(variables).flatMap(([name, value]) => ["--env", `${name}=${value}`]),
      ...(entrypoint === undefined ? [] : ["--entrypoint", entrypoint]),
      container.image!.replace(/^[^/]+\//, "localhost/"),
      ...command,
      ...(container.args ?? []),
    ];
    this.#process = spawn("podman", args, { stdio: ["ignore", "pipe", "pipe"] });
    this.#ports.promise.catch(() => undefined);
    for (const stream of [this.#process.stdout!, this.#process.stderr!])
      createInterface(stream).on("line", (line) => this.#take(line));
    this.exited = once(this.#process, "close").then(([code]) => {
      this.#ports.reject(new Error(`${service} ended (${code}):\n${this.lines.slice(-20).join("\n")}`));
      return code as number;
    });
  }

  /** Its listeners' ports by name, once it serves. @throws Error with its last lines when it does not. */
  async ports(): Promise<Record<string, number>> {
    const timer = setTimeout(
      () => this.#ports.reject(new Error(`it does not serve within ${boundMs} ms:\n${this.lines.slice(-20).join("\n")}`)),
      boundMs,
    );
    return await this.#ports.promise.finally(() => clearTimeout(timer));
  }

  /** Ends it as a kubelet does, by SIGTERM and after its grace by SIGKILL; answers its exit code. */
  async stop(graceSeconds: number): Promise<number> {
    spawnSync("podman", [...onThisMachine, "stop", "--time", String(graceSeconds), this.#name], { timeout: boundMs });
    return await this.exited;
  }

  /** Ends it at once, however it is. */
  async remove(): Promise<void> {
    spawnSync("podman", [...onThisMachine, "rm", "--force", "--ignore", "--time", "0", this.#name], { timeout: boundMs });
    await this.exited;
  }

  #take(line: string): void {
    this.lines.push(line);
    if (!line.startsWith("{")) return;
    const { message, ports } = JSON.parse(line) as { message?: string; ports?: Record<string, number> };
    if (message === "serving" && ports !== undefined) this.#ports.resolve(ports);
  }
}

function variablesOf(container: V1Container, config: Record<string, string>, { variables }: Surroundings): Record<string, string> {
  const local = Object.entries(config).map(([name, value]): [string, string] => [
    name,
    // Peers are not there, and nobody's readiness waits for one.
    value
      .replace(/^(0\.0\.0\.0|127\.0\.0\.1):\d+$/, "127.0.0.1:0")
      .replace(/^http:\/\/it-iterate-[a-z-]+:\d+$/, "http://127.0.0.1:9"),
  ]);
  const secret = (container.env ?? []).flatMap(({ name }): [string, string][] =>
    name in variables ? [[name, variables[name]!]] : [],
  );
  const replaced = local.map(([name, value]): [string, string] => [name, variables[name] ?? value]);
  return Object.fromEntries([...replaced, ...secret]);
}
