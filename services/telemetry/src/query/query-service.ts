/** TelemetryQueryService. Only ingress calls it, which knows who may ask for which owner. */
import type { TelemetryQueryServiceService } from "@iterate-platform/proto/iterate/telemetry/v1/query";
import type { Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import type { Queryable } from "@iterate-platform/service/postgres";
import { getTrace } from "./get-trace.js";
import { listLogs } from "./list-logs.js";

type Definition = typeof TelemetryQueryServiceService;

const forIngress = { services: ["ingress"], execution: "refused", person: "allowed" } as const;

export const queryRules: MethodRules<Definition> = { getTrace: forIngress, listLogs: forIngress };

export function queryService(db: Queryable, nowMs: () => number): Handlers<Definition> {
  return {
    getTrace: (request) => getTrace(db, request),
    listLogs: (request) => listLogs(db, request, nowMs()),
  };
}
