/** ArchiveService over public gRPC: decode, authorize, call, encode. */
import type {
  ArchiveServiceService,
  ExportProjectResponse,
  ImportProjectRequest,
  ImportProjectResponse,
} from "@iterate-platform/proto/iterate/ingress/v1/archive";
import type { CallContext, Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import { codedError } from "iterate/lib";
import { assertOperator, type Archives } from "../project/archive-ports.js";
import type { ProjectImports } from "../project/imports.js";
import type { Projects } from "../project/projects.js";
import type { Addresses } from "../session/session-scope.js";

const forPersons = { services: ["public"], execution: "refused", person: "required" } as const;

export const archiveRules: MethodRules<ArchiveServiceService> = { exportProject: forPersons, importProject: forPersons };

export interface ArchiveServiceParts {
  readonly projects: Projects;
  readonly archives: Archives;
  readonly imports: ProjectImports;
  readonly addresses: Addresses;
  /** The principal that may. */
  readonly operator: string;
}

export function archiveService({
  projects,
  archives,
  imports,
  addresses,
  operator,
}: ArchiveServiceParts): Handlers<ArchiveServiceService> {
  return {
    exportProject: async function* ({ project, path }, { caller, signal }: CallContext): AsyncGenerator<ExportProjectResponse> {
      assertOperator(caller.principal, operator);
      for await (const { data, contexts, events } of archives.export(await projects.get(project), path, signal))
        yield { data: Buffer.from(data), contexts: BigInt(contexts), events: BigInt(events) };
    },
    importProject: async (requests: AsyncIterable<ImportProjectRequest>, call: CallContext): Promise<ImportProjectResponse> => {
      assertOperator(call.caller.principal, operator);
      const pieces: AsyncIterator<ImportProjectRequest> = requests[Symbol.asyncIterator]();
      const first = await pieces.next();
      if (first.done === true) throw codedError("INVALID_INPUT", "the import holds no archive");
      const { slug, replace } = first.value;
      const request = { slug, replace, principal: operator };
      const { project, contexts, events } = await imports.import(request, dataOf(first.value, pieces), call.signal);
      return {
        project: {
          id: project.id,
          slug: project.slug,
          createdAtUs: BigInt(project.createdAt.getTime()) * 1000n,
          url: addresses.project(project.slug),
        },
        contexts: BigInt(contexts),
        events: BigInt(events),
      };
    },
  };
}

async function* dataOf(first: ImportProjectRequest, rest: AsyncIterator<ImportProjectRequest>): AsyncGenerator<Uint8Array> {
  yield first.data;
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value.data;
}
