/** Projects: made, found and listed; and the sweep that carries out what new ones owe. */
import { codedError } from "iterate/lib";
import type { Queryable } from "@iterate-platform/service/postgres";
import { announce, putOffMs, type AnnouncePorts } from "./announce.js";
import { projectTemplates, type CreateProject, type OwedProject, type Project } from "./contract.js";
import {
  claimOwedProject,
  claimOwedProjects,
  findProject,
  insertProject,
  markAnnounced,
  pageOfProjects,
  putOff,
} from "./project.sql.js";
import { assertProjectSlug } from "./slug.js";

export const maxPageSize = 500;
export const defaultPageSize = 50;

export interface ProjectsOptions {
  readonly pool: Queryable;
  readonly ports: AnnouncePorts;
  readonly newProjectId: () => string;
  /** Told of every announcement that failed; the row is put off and tried again. */
  readonly onPutOff: (owed: OwedProject, error: unknown) => void;
}

export class Projects {
  constructor(private readonly options: ProjectsOptions) {}

  /**
   * Makes the project and answers once its row is durable; its birth facts follow at once, or by the sweep. Throws INVALID_INPUT for a bad
   * slug or template and PROJECT_NAME_TAKEN, neither retryable.
   */
  async create(request: CreateProject): Promise<Project> {
    assertProjectSlug(request.slug);
    if (request.template !== null && !projectTemplates.includes(request.template)) {
      throw codedError("INVALID_INPUT", `template ${JSON.stringify(request.template)} is none of ${projectTemplates.join(", ")}`, {
        field: "template",
      });
    }
    const project = await insertProject(this.options.pool, this.options.newProjectId(), request);
    if (project === null)
      throw codedError("PROJECT_NAME_TAKEN", `the slug ${JSON.stringify(request.slug)} is taken; choose another`, {
        slug: request.slug,
      });
    const owed = await claimOwedProject(this.options.pool, project.id);
    if (owed !== null) await this.settle(owed);
    return project;
  }

  /** Throws NOT_FOUND, which names what was asked for. */
  async get(idOrSlug: string): Promise<Project> {
    const project = await findProject(this.options.pool, idOrSlug);
    if (project === null) throw codedError("NOT_FOUND", `there is no project ${JSON.stringify(idOrSlug.slice(0, 80))}`);
    return project;
  }

  /** One page by slug, after the slug `after`, and the slug to go on after, or null at the end. */
  async list(after: string, size: number): Promise<{ projects: Project[]; next: string | null }> {
    if (!Number.isInteger(size) || size < 1 || size > maxPageSize) {
      throw codedError("INVALID_INPUT", `page size ${size} is not from 1 to ${maxPageSize}`, { field: "page_size" });
    }
    const found = await pageOfProjects(this.options.pool, after, size + 1);
    const projects = found.slice(0, size);
    return { projects, next: found.length > size ? (projects.at(-1)?.slug ?? null) : null };
  }

  /** Carries out what is owed and due, at most `limit` projects; answers how many were tried. */
  async sweep(limit: number): Promise<number> {
    const owed = await claimOwedProjects(this.options.pool, limit);
    for (const project of owed) await this.settle(project);
    return owed.length;
  }

  /** A failure never reaches the caller: the row is the durable owner of what is left to do. */
  private async settle(owed: OwedProject): Promise<void> {
    try {
      await announce(owed, this.options.ports);
      await markAnnounced(this.options.pool, owed.id);
    } catch (error) {
      this.options.onPutOff(owed, error);
      await putOff(this.options.pool, owed.id, putOffMs(owed.attempts)).catch(() => undefined);
    }
  }
}
