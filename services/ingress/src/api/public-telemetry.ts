/**
 * TelemetryQueryService for other teams: forwarded to `telemetry` on behalf of whoever showed the bearer. The operator may ask for any
 * owner, nobody else for one.
 */
import type { TelemetryQueryServiceService } from "@iterate-platform/proto/iterate/telemetry/v1/query";
import type { CallOptions } from "@iterate-platform/service/grpc-client";
import type { CallContext, Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import { codedError } from "iterate/lib";
import type { TelemetryClient } from "../session/telemetry-reader.js";

type Definition = typeof TelemetryQueryServiceService;

const forPersons = { services: ["public"], execution: "refused", person: "required" } as const;

export const publicTelemetryRules: MethodRules<Definition> = { getTrace: forPersons, listLogs: forPersons };

/** `operator` is the principal that sees every owner. */
export function publicTelemetryService(telemetry: TelemetryClient, operator: string): Handlers<Definition> {
  return {
    getTrace: (request, call) => telemetry.getTrace(request, onBehalf(call, operator)),
    listLogs: (request, call) => telemetry.listLogs(request, onBehalf(call, operator)),
  };
}

function onBehalf({ caller: { principal }, signal, deadlineMs }: CallContext, operator: string): CallOptions {
  if (principal !== operator) throw codedError("FORBIDDEN", "telemetry is for the operator of the deployment");
  return { principal, signal, deadlineMs: Number.isFinite(deadlineMs) ? deadlineMs : undefined };
}
