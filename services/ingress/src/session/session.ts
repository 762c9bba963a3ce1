/** What a socket of `/api` holds: `authenticate` at first, and what it answers once the credential is right. */
import type {
  AdminApi,
  CreateProjectArgs,
  Credentials,
  ImportApi,
  ImportArgs,
  IterateApi,
  ListProjectsArgs,
  LogRestored,
  ProjectApi,
  ProjectInfo,
  ProjectsApi,
  ProjectsPage,
  SessionApi,
  SessionIdentity,
  TracesApi,
} from "iterate/api";
import { codedError } from "iterate/lib";
import type { AdminToken } from "../identity/admin-token.js";
import type { Project } from "../project/contract.js";
import { ApiTarget } from "./api-target.js";
import { checked, createProject, credentials as credentialsSchema, importProject, listProjects, text } from "./arguments.js";
import { ImportHandle } from "./import-handle.js";
import { ProjectHandle } from "./project-handle.js";
import { SessionScope, type SessionParts } from "./session-scope.js";
import { AllTracesHandle } from "./telemetry-handles.js";

/** Tries one socket has; a wrong one costs the whole socket in the end. */
export const maxAuthenticateAttempts = 5;

const defaultProjectsPage = 100;

export class UnauthenticatedApi extends ApiTarget implements IterateApi {
  readonly #parts: SessionParts;
  readonly #adminToken: AdminToken;
  readonly #signal: AbortSignal;
  readonly #onAuthenticated: () => void;
  #attempts = 0;

  constructor(parts: SessionParts, adminToken: AdminToken, signal: AbortSignal, onAuthenticated: () => void) {
    super();
    this.#parts = parts;
    this.#adminToken = adminToken;
    this.#signal = signal;
    this.#onAuthenticated = onAuthenticated;
  }

  async authenticate(given: Credentials): Promise<SessionApi> {
    if (++this.#attempts > maxAuthenticateAttempts) {
      throw codedError("INVALID_CREDENTIALS", `${maxAuthenticateAttempts} attempts were made on this connection; open another`);
    }
    const { secret } = checked("authenticate", credentialsSchema, given);
    if (!this.#adminToken.matches(secret))
      throw codedError("INVALID_CREDENTIALS", "the secret is not the admin token of this deployment");
    this.#onAuthenticated();
    return new Session(new SessionScope(this.#parts, this.#adminToken.principal, this.#signal));
  }
}

class Session extends ApiTarget implements SessionApi {
  readonly #scope: SessionScope;
  readonly #projects: ProjectsHandle;
  readonly #traces: AllTracesHandle;
  readonly #admin: AdminHandle;

  constructor(scope: SessionScope) {
    super();
    this.#scope = scope;
    this.#projects = new ProjectsHandle(scope);
    this.#traces = new AllTracesHandle(scope);
    this.#admin = new AdminHandle(scope);
  }

  async whoami(): Promise<SessionIdentity> {
    return { kind: "admin", principal: this.#scope.principal };
  }

  get projects(): ProjectsApi {
    return this.#projects;
  }

  get traces(): TracesApi {
    return this.#traces;
  }

  get admin(): AdminApi {
    return this.#admin;
  }
}

class AdminHandle extends ApiTarget implements AdminApi {
  readonly #scope: SessionScope;

  constructor(scope: SessionScope) {
    super();
    this.#scope = scope;
  }

  declareLogRestored(): Promise<LogRestored> {
    const { parts, principal } = this.#scope;
    return this.#scope.call(async () => ({ generations: await parts.declareLogRestored(principal) }));
  }
}

class ProjectsHandle extends ApiTarget implements ProjectsApi {
  readonly #scope: SessionScope;

  constructor(scope: SessionScope) {
    super();
    this.#scope = scope;
  }

  list(page?: ListProjectsArgs): Promise<ProjectsPage> {
    const { limit = defaultProjectsPage, after = "" } = checked("projects.list", listProjects, page) ?? {};
    return this.#scope.call(async () => {
      const { projects, next } = await this.#scope.parts.projects.list(after, limit);
      return { projects: projects.map((project) => this.#info(project)), next };
    });
  }

  get(idOrSlug: string): Promise<ProjectApi> {
    const name = checked("projects.get", text, idOrSlug);
    return this.#scope.call(async () => new ProjectHandle(this.#scope, await this.#scope.parts.projects.get(name)));
  }

  create(args: CreateProjectArgs): Promise<ProjectInfo> {
    const { slug, template } = checked("projects.create", createProject, args);
    return this.#scope.call(async () =>
      this.#info(await this.#scope.parts.projects.create({ slug, template: template ?? null, principal: this.#scope.principal })),
    );
  }

  async import(args?: ImportArgs): Promise<ImportApi> {
    const { slug = "", replace = false } = checked("projects.import", importProject, args) ?? {};
    const { parts, principal, signal } = this.#scope;
    return new ImportHandle({
      start: async (data, until) => {
        const { project, contexts, events } = await parts.imports.import({ slug, replace, principal }, data, until);
        return { project: this.#info(project), contexts, events };
      },
      signal,
      onEnd: this.#scope.openSubscription(),
    });
  }

  #info(project: Project): ProjectInfo {
    return {
      id: project.id,
      slug: project.slug,
      createdAt: project.createdAt.toISOString(),
      url: this.#scope.parts.addresses.project(project.slug),
      gitUrl: this.#scope.parts.addresses.git(project.slug),
    };
  }
}
