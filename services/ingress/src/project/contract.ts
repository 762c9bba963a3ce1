/** What a project and its webhook endpoints are to the rest of ingress. */

export interface Project {
  /** `prj_…` */
  readonly id: string;
  readonly slug: string;
  readonly createdAt: Date;
}

export const projectTemplates = ["minimal", "triage"] as const;
export type ProjectTemplate = (typeof projectTemplates)[number];

export interface CreateProject {
  readonly slug: string;
  readonly template: ProjectTemplate | null;
  /** Who asked. */
  readonly principal: string;
}

/** A project whose birth facts are still owed to its contexts. */
export interface OwedProject {
  readonly id: string;
  readonly slug: string;
  readonly template: ProjectTemplate | null;
  readonly attempts: number;
}

export interface WebhookEndpoint {
  /** Unguessable; whoever knows it can post, but only a right signature is taken. */
  readonly id: string;
  readonly projectId: string;
  readonly provider: "github";
  readonly name: string;
  /** Context of the secret the provider signs with. */
  readonly secretPath: string;
  readonly createdAt: Date;
}
