/** A project as a session holds it: its root context, its webhook endpoints, its logs and traces. */
import type {
  ArchiveCounts,
  CreatedWebhookEndpoint,
  CreateWebhookEndpointArgs,
  ExportArgs,
  LogsApi,
  ProjectApi,
  ProjectTracesApi,
  WebhookEndpoint as EndpointInfo,
  WebhookEndpointsApi,
} from "iterate/api";
import { codedError, resolveContextPath } from "iterate/lib";
import type { Project, WebhookEndpoint } from "../project/contract.js";
import { deliveryContextPath } from "../webhook/github/delivery-event.js";
import { ApiTarget } from "./api-target.js";
import { checked, createWebhookEndpoint, exportProject } from "./arguments.js";
import { ContextHandle, type ClientCallback } from "./context-handle.js";
import type { SessionScope } from "./session-scope.js";
import { LogsHandle, ProjectTracesHandle } from "./telemetry-handles.js";

export class ProjectHandle extends ContextHandle implements ProjectApi {
  readonly #scope: SessionScope;
  readonly #project: Project;
  readonly #webhooks: WebhookEndpointsHandle;
  readonly #logs: LogsHandle;
  readonly #traces: ProjectTracesHandle;

  constructor(scope: SessionScope, project: Project) {
    super(scope, project, "/");
    this.#scope = scope;
    this.#project = project;
    this.#webhooks = new WebhookEndpointsHandle(scope, project);
    this.#logs = new LogsHandle(scope, project);
    this.#traces = new ProjectTracesHandle(scope, project);
  }

  get webhooks(): WebhookEndpointsApi {
    return this.#webhooks;
  }

  get logs(): LogsApi {
    return this.#logs;
  }

  get traces(): ProjectTracesApi {
    return this.#traces;
  }

  async export(args: ExportArgs): Promise<ArchiveCounts> {
    const { path, onPiece } = checked("export", exportProject, args);
    if (typeof onPiece !== "function") throw codedError("INVALID_INPUT", "export: onPiece is not a function", { method: "export" });
    const given = onPiece as ClientCallback;
    const release = this.#scope.openSubscription();
    const callback = given.dup?.() ?? given;
    try {
      let counts: ArchiveCounts = { contexts: 0, events: 0 };
      const { parts, signal } = this.#scope;
      const from = path === undefined ? undefined : resolveContextPath("/", path);
      for await (const { data, contexts, events } of parts.archives.export(this.#project, from, signal)) {
        await callback({ data: new Uint8Array(data), contexts, events });
        counts = { contexts, events };
      }
      return counts;
    } finally {
      release();
      callback[Symbol.dispose]?.();
    }
  }
}

class WebhookEndpointsHandle extends ApiTarget implements WebhookEndpointsApi {
  readonly #scope: SessionScope;
  readonly #project: Project;

  constructor(scope: SessionScope, project: Project) {
    super();
    this.#scope = scope;
    this.#project = project;
  }

  create(args: CreateWebhookEndpointArgs): Promise<CreatedWebhookEndpoint> {
    const { provider, name, secret } = checked("webhooks.create", createWebhookEndpoint, args);
    return this.#scope.call(async () => {
      const given = secret === undefined ? null : Buffer.from(secret);
      const { endpoint, generatedSecret } = await this.#scope.parts.endpoints.create(
        this.#project.id,
        provider,
        name ?? "main",
        given,
      );
      return { ...this.#info(endpoint), secret: generatedSecret ?? secret ?? "" };
    });
  }

  list(): Promise<readonly EndpointInfo[]> {
    return this.#scope.call(async () =>
      (await this.#scope.parts.endpoints.list(this.#project.id)).map((endpoint) => this.#info(endpoint)),
    );
  }

  #info(endpoint: WebhookEndpoint): EndpointInfo {
    return {
      provider: endpoint.provider,
      name: endpoint.name,
      url: this.#scope.parts.addresses.webhook(endpoint),
      contextPath: deliveryContextPath(endpoint.name),
      createdAt: endpoint.createdAt.toISOString(),
    };
  }
}
