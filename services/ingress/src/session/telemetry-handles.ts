/** Logs and traces as a session holds them: of one project, or, for the operator, of all. */
import type { EventPlace, LogsApi, LogsPage, ProjectTracesApi, ReadLogsArgs, Trace, TracesApi } from "iterate/api";
import type { Project } from "../project/contract.js";
import { ApiTarget } from "./api-target.js";
import { checked, eventPlace, readLogs, text } from "./arguments.js";
import type { SessionScope } from "./session-scope.js";

export class LogsHandle extends ApiTarget implements LogsApi {
  readonly #scope: SessionScope;
  readonly #project: Project;

  constructor(scope: SessionScope, project: Project) {
    super();
    this.#scope = scope;
    this.#project = project;
  }

  read(args?: ReadLogsArgs): Promise<LogsPage> {
    const page = (checked("logs.read", readLogs, args) ?? {}) as ReadLogsArgs;
    const { parts, principal } = this.#scope;
    return this.#scope.call(() => parts.telemetry.logs(this.#project.id, page, principal));
  }
}

/** Every session is the operator's as yet. */
export class AllTracesHandle extends ApiTarget implements TracesApi {
  readonly #scope: SessionScope;

  constructor(scope: SessionScope) {
    super();
    this.#scope = scope;
  }

  get(traceId: string): Promise<Trace> {
    const id = checked("traces.get", text, traceId);
    const { parts, principal } = this.#scope;
    return this.#scope.call(() => parts.telemetry.trace("", id, principal));
  }
}

export class ProjectTracesHandle extends ApiTarget implements ProjectTracesApi {
  readonly #scope: SessionScope;
  readonly #project: Project;

  constructor(scope: SessionScope, project: Project) {
    super();
    this.#scope = scope;
    this.#project = project;
  }

  get(traceId: string): Promise<Trace> {
    const id = checked("traces.get", text, traceId);
    const { parts, principal } = this.#scope;
    return this.#scope.call(() => parts.telemetry.trace(this.#project.id, id, principal));
  }

  ofEvent(event: EventPlace): Promise<Trace> {
    const place = checked("traces.ofEvent", eventPlace, event);
    const { parts, principal } = this.#scope;
    return this.#scope.call(() => parts.telemetry.traceOfEvent(this.#project.id, place, principal));
  }
}
