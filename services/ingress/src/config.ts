/** The variables of ingress beyond those of every service. */
import { defineConfig, file, listen, oneOf, optional, text, url } from "@iterate-platform/service/config";

export const config = defineConfig({
  publicHttpListen: listen("PUBLIC_HTTP_LISTEN", {
    description: "Where the platform's own host is served: `/api`, webhooks, git.",
    default: "127.0.0.1:7400",
  }),
  publicGrpcListen: listen("PUBLIC_GRPC_LISTEN", {
    description: "Where gRPC for other teams is served.",
    default: "127.0.0.1:7401",
  }),
  projectListen: listen("PROJECT_LISTEN", { description: "Where the pages of projects are served.", default: "127.0.0.1:7402" }),
  publicBaseUrl: url("PUBLIC_BASE_URL", ["http", "https"], {
    description: "Address of the platform's own host as people reach it.",
    default: "http://localhost:7400",
  }),
  projectBase: text("PROJECT_BASE", {
    description: "Host (and port) that the pages of projects live under; never the platform's own.",
    default: "127.0.0.1:7402",
  }),
  projectHosts: oneOf("PROJECT_HOSTS", ["paths"], {
    description: "`paths` serves all projects under `/projects/<slug>/` of one origin: for one machine only.",
    default: "paths",
  }),
  contextUrl: url("CONTEXT_URL", ["http", "https"], { description: "Internal gRPC of `context`." }),
  bundlerUrl: url("BUNDLER_URL", ["http", "https"], { description: "Internal gRPC of `bundler`." }),
  bundlerHttpUrl: url("BUNDLER_HTTP_URL", ["http", "https"], { description: "Internal HTTP of `bundler`, for git." }),
  runnerHttpUrl: url("RUNNER_HTTP_URL", ["http", "https"], {
    description: "Internal HTTP of `runner`, for the pages of projects.",
  }),
  telemetryUrl: optional(
    url("TELEMETRY_URL", ["http", "https"], {
      description: "Internal gRPC of `telemetry`; without it logs and traces cannot be read.",
    }),
  ),
  adminTokenFile: file("ITERATE_ADMIN_TOKEN_FILE", { description: "File with the operator's token, at least 32 bytes." }),
  templatesDir: optional(
    text("TEMPLATES_DIR", { description: "Folder of the project templates; without it, those that come with the service." }),
  ),
});
