/** AdminService for the operator of the deployment: forwarded to `context` on behalf of whoever showed the admin bearer. */
import type { AdminServiceClient, AdminServiceService } from "@iterate-platform/proto/iterate/context/v1/admin";
import type { ServiceClient } from "@iterate-platform/service/grpc-client";
import type { Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import { codedError } from "iterate/lib";

export type AdminClient = ServiceClient<(typeof AdminServiceClient)["service"]>;

export const publicAdminRules: MethodRules<typeof AdminServiceService> = {
  declareLogRestored: { services: ["public"], execution: "refused", person: "required" },
};

/** `operator` is the principal that may. */
export function publicAdminService(admin: AdminClient, operator: string): Handlers<typeof AdminServiceService> {
  return {
    declareLogRestored: (request, { caller: { principal }, signal }) => {
      if (principal !== operator)
        throw codedError("FORBIDDEN", "the log is declared restored by the operator of the deployment alone");
      return admin.declareLogRestored(request, { principal, signal });
    },
  };
}
