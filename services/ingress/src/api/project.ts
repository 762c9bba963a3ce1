/** ProjectService over gRPC: decode, call, encode. */
import {
  WebhookProvider,
  type Project as ProjectMessage,
  type ProjectServiceService,
  type WebhookEndpoint as EndpointMessage,
} from "@iterate-platform/proto/iterate/ingress/v1/project";
import type { Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import { codedError } from "iterate/lib";
import type { Project, ProjectTemplate, WebhookEndpoint } from "../project/contract.js";
import { defaultPageSize, type Projects } from "../project/projects.js";
import type { Addresses } from "../session/session-scope.js";
import type { WebhookEndpoints } from "../webhook/endpoints.js";

type Definition = typeof ProjectServiceService;

const forPersons = { services: ["public"], execution: "refused", person: "required" } as const;

export const projectRules: MethodRules<Definition> = {
  createProject: forPersons,
  getProject: forPersons,
  listProjects: forPersons,
  createWebhookEndpoint: forPersons,
  listWebhookEndpoints: forPersons,
};

export interface ProjectServiceParts {
  readonly projects: Projects;
  readonly endpoints: WebhookEndpoints;
  readonly addresses: Addresses;
}

export function projectService({ projects, endpoints, addresses }: ProjectServiceParts): Handlers<Definition> {
  const projectMessage = (project: Project): ProjectMessage => ({
    id: project.id,
    slug: project.slug,
    createdAtUs: microseconds(project.createdAt),
    url: addresses.project(project.slug),
  });
  const endpointMessage = (endpoint: WebhookEndpoint): EndpointMessage => ({
    id: endpoint.id,
    provider: WebhookProvider.WEBHOOK_PROVIDER_GITHUB,
    name: endpoint.name,
    url: addresses.webhook(endpoint),
    createdAtUs: microseconds(endpoint.createdAt),
  });
  return {
    createProject: async ({ slug, template }, call) => {
      const wanted = template === "" ? null : (template as ProjectTemplate);
      return { project: projectMessage(await projects.create({ slug, template: wanted, principal: call.caller.principal ?? "" })) };
    },
    getProject: async ({ project }) => ({ project: projectMessage(await projects.get(project)) }),
    listProjects: async ({ pageToken, pageSize }) => {
      const page = await projects.list(pageToken, pageSize === 0 ? defaultPageSize : pageSize);
      return { projects: page.projects.map(projectMessage), nextPageToken: page.next ?? "" };
    },
    createWebhookEndpoint: async ({ project, provider, name, secret }) => {
      if (provider !== WebhookProvider.WEBHOOK_PROVIDER_GITHUB) {
        throw codedError("INVALID_INPUT", `provider ${provider} is not WEBHOOK_PROVIDER_GITHUB`, { field: "provider" });
      }
      const owner = await projects.get(project);
      const made = await endpoints.create(owner.id, "github", name === "" ? "main" : name, secret.length === 0 ? null : secret);
      return { endpoint: endpointMessage(made.endpoint), secret: Buffer.from(made.generatedSecret ?? "") };
    },
    listWebhookEndpoints: async ({ project }) => {
      const owner = await projects.get(project);
      return { endpoints: (await endpoints.list(owner.id)).map(endpointMessage) };
    },
  };
}

const microseconds = (time: Date): bigint => BigInt(time.getTime()) * 1000n;
