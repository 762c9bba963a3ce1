/** Composes ingress: the platform's host, the pages of projects, public gRPC, and the loop behind new projects. */
import { fileURLToPath } from "node:url";
import { readFileSync } from "node:fs";
import { setTimeout as timer } from "node:timers/promises";
import { readDescriptorSet } from "@iterate-platform/proto/descriptor-set";
import { RepoServiceClient } from "@iterate-platform/proto/iterate/bundler/v1/repo";
import { AdminServiceClient, AdminServiceService } from "@iterate-platform/proto/iterate/context/v1/admin";
import { ArchiveServiceClient } from "@iterate-platform/proto/iterate/context/v1/archive";
import { ContextServiceClient, ContextServiceService } from "@iterate-platform/proto/iterate/context/v1/context";
import { SecretServiceClient, SignatureScheme } from "@iterate-platform/proto/iterate/context/v1/secret";
import { ArchiveServiceService } from "@iterate-platform/proto/iterate/ingress/v1/archive";
import { ProjectServiceService } from "@iterate-platform/proto/iterate/ingress/v1/project";
import { TelemetryQueryServiceClient, TelemetryQueryServiceService } from "@iterate-platform/proto/iterate/telemetry/v1/query";
import { ContextCalls } from "@iterate-platform/service/context-calls";
import { ContextLog } from "@iterate-platform/service/context-log";
import { createClient } from "@iterate-platform/service/grpc-client";
import { createGrpcServer } from "@iterate-platform/service/grpc-server";
import { createHttpServer } from "@iterate-platform/service/http-server";
import { newId, uuidv7 } from "@iterate-platform/service/ids";
import { runService } from "@iterate-platform/service/service";
import { codedError, errorCode } from "iterate/lib";
import { platformHost, platformUpgrade, type PlatformHostParts } from "./api/platform-host.js";
import { projectPages } from "./api/project-pages.js";
import { projectRules, projectService } from "./api/project.js";
import { archiveRules, archiveService } from "./api/archive.js";
import { publicAdminRules, publicAdminService } from "./api/public-admin.js";
import { publicContextRules, publicContextService } from "./api/public-context.js";
import { publicTelemetryRules, publicTelemetryService } from "./api/public-telemetry.js";
import { config } from "./config.js";
import { AdminToken, tokenOfAuthorization } from "./identity/admin-token.js";
import { Archives } from "./project/archive-ports.js";
import { ProjectImports } from "./project/imports.js";
import { configRepoPath, type AnnouncePorts } from "./project/announce.js";
import { oldestOwedSeconds } from "./project/project.sql.js";
import { Projects } from "./project/projects.js";
import { sweepEveryMs, sweepProjects } from "./project/sweep.js";
import { readTemplate } from "./project/template.js";
import { addressesOf } from "./route/addresses.js";
import { createForwarder } from "./route/forward.js";
import { SessionSockets } from "./session/socket.js";
import type { SessionParts } from "./session/session-scope.js";
import { TelemetryReader } from "./session/telemetry-reader.js";
import { WebhookEndpoints } from "./webhook/endpoints.js";

/** A git push may take this long to arrive. */
const longestRequestMs = 600_000;
/** The templates that come with the service. */
const ownTemplates = fileURLToPath(new URL("../../../docs/examples", import.meta.url));

await runService({
  name: "ingress",
  config,
  postgres: { max: 4 },
  migrationsDir: new URL("../migrations", import.meta.url),
  grpc: false,
  main: ({ config, log, trust, pool, metrics, readiness, stopping, addListener, onStop }) => {
    const context = createClient(ContextServiceClient, config.contextUrl, { trust, audience: "context" });
    const archiveClient = createClient(ArchiveServiceClient, config.contextUrl, { trust, audience: "context" });
    const admin = createClient(AdminServiceClient, config.contextUrl, { trust, audience: "context" });
    const secrets = createClient(SecretServiceClient, config.contextUrl, { trust, audience: "context" });
    const repos = createClient(RepoServiceClient, config.bundlerUrl, { trust, audience: "bundler" });
    const telemetry =
      config.telemetryUrl === undefined
        ? null
        : createClient(TelemetryQueryServiceClient, config.telemetryUrl, { trust, audience: "telemetry" });
    const adminToken = new AdminToken(readFileSync(config.adminTokenFile, "utf8").trim());
    const addresses = addressesOf(config.publicBaseUrl, config.projectBase);
    const forwarder = createForwarder();

    const append: AnnouncePorts["append"] = async (owner, path, events) => {
      await context.append({
        context: { owner, path },
        appendId: uuidv7(),
        events: events.map(({ type, payload, idempotencyKey }) => ({
          type,
          payload: Buffer.from(JSON.stringify(payload)),
          metadata: undefined,
          idempotencyKey,
          expectedOffset: undefined,
          processor: undefined,
          ephemeral: false,
          formatVersion: 0,
        })),
      });
    };
    const projects = new Projects({
      pool,
      newProjectId: () => newId("prj"),
      onPutOff: (owed, error) =>
        log.warn("a project's announcement is put off", { owner: owed.id, attempts: owed.attempts, error }),
      ports: {
        append,
        commitTemplate: async (owner, template) => {
          const files = await readTemplate(config.templatesDir ?? ownTemplates, template);
          await repos.commitFiles({
            repo: { owner, path: configRepoPath },
            message: `Start from the template ${template}`,
            changes: files.map(({ path, content }) => ({ path, content })),
            author: { name: "Iterate", email: "iterate@localhost" },
            parent: "",
          });
        },
      },
    });
    const archives = new Archives(archiveClient, (ms) => pause(ms, stopping));
    const imports = new ProjectImports({
      pool,
      ports: {
        stage: (request, data, signal) => archives.stage(request, data, signal),
        open: (importId, owner) => archives.open(importId, owner),
        remove: (importId) => archives.remove(importId),
        append: (owner, path, events) => archives.whole(() => append(owner, path, events).then(() => true)),
      },
      newImportId: () => uuidv7().replaceAll("-", ""),
      every: (ms, work) => {
        const timer = setInterval(work, ms);
        return () => clearInterval(timer);
      },
      onLeft: ({ project, step }, error) => log.warn("an import is left to the sweep", { owner: project.id, step, error }),
    });
    const endpoints = new WebhookEndpoints(pool, async (owner, path, material) => {
      await secrets.set({ owner, path, material: Buffer.from(material), origins: [] });
    });

    const sessionParts: SessionParts = {
      archives,
      imports,
      declareLogRestored: async (principal) => (await admin.declareLogRestored({}, { principal })).generations,
      projects,
      endpoints,
      telemetry: new TelemetryReader(telemetry, context),
      addresses,
      pause,
      contextLog: (owner, path, principal, signal, deadlineMs) =>
        new ContextLog(context, { owner, path }, { principal, signal, deadlineMs }),
      contextCalls: (owner, path, principal, signal, deadlineMs) =>
        new ContextCalls(context, { owner, path }, { principal, signal, deadlineMs }),
      headOffset: async (owner, path, principal) =>
        Number((await context.describeContext({ context: { owner, path } }, { principal })).headOffset),
    };
    const sockets = new SessionSockets({
      parts: sessionParts,
      adminToken,
      origin: config.publicBaseUrl,
      report: (error) => {
        const id = uuidv7();
        log.error("a call of a session failed", { id, error });
        return id;
      },
    });
    metrics.observedGauge("iterate.sessions.open", { description: "Session sockets open now." }, () => sockets.size);

    const deliveries = metrics.counter("iterate.webhook.deliveries", {
      description: "Deliveries by provider and how they were answered.",
    });
    const parts: PlatformHostParts = {
      projects,
      adminToken,
      sockets,
      addresses,
      forwarder,
      trust,
      bundlerHttpUrl: config.bundlerHttpUrl,
      receive: {
        findEndpoint: (id) => endpoints.find(id),
        verify: async (endpoint, payload, signature) => {
          const { valid } = await secrets.verify({
            owner: endpoint.projectId,
            path: endpoint.secretPath,
            scheme: SignatureScheme.SIGNATURE_SCHEME_HMAC_SHA256,
            payload: Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength),
            signature: Buffer.from(signature),
          });
          return valid;
        },
        append: async (owner, path, { type, payload, idempotencyKey }) => {
          const event = {
            type,
            payload: Buffer.from(payload),
            metadata: undefined,
            idempotencyKey,
            expectedOffset: undefined,
            processor: undefined,
            ephemeral: false,
            formatVersion: 0,
          };
          const { receipts } = await context.append({ context: { owner, path }, appendId: uuidv7(), events: [event] });
          const receipt = receipts[0];
          if (receipt === undefined) throw codedError("INTERNAL", "the context service answered an append without a receipt");
          return receipt;
        },
      },
      onDelivery: (end, header) => {
        const answered = "error" in end ? errorCode(end.error) : end.outcome;
        deliveries.add(1, { provider: "github", answered });
        // GitHub does not come back by itself: what was refused can be asked for again by this id.
        if ("error" in end)
          log.warn("a delivery was not taken", {
            provider: "github",
            code: answered,
            delivery: header("x-github-delivery")?.slice(0, 128),
          });
      },
    };
    addListener(
      "public-http",
      createHttpServer({
        name: "ingress",
        listen: config.publicHttpListen,
        log,
        handler: platformHost(parts),
        onUpgrade: platformUpgrade(parts),
        foreignTraces: true,
        requestTimeoutMs: longestRequestMs,
      }),
    );
    addListener(
      "projects",
      createHttpServer({
        name: "ingress",
        listen: config.projectListen,
        log,
        handler: projectPages({ projects, forwarder, trust, runnerHttpUrl: config.runnerHttpUrl }),
        foreignTraces: true,
        requestTimeoutMs: longestRequestMs,
      }),
    );

    const publicGrpc = createGrpcServer({
      name: "ingress",
      listen: config.publicGrpcListen,
      log,
      descriptorSet: readDescriptorSet(),
      authenticate: (call) => {
        const token = tokenOfAuthorization(call.metadata.get("authorization")[0]?.toString());
        if (token === null || !adminToken.matches(token))
          throw codedError("UNAUTHENTICATED", "the call carries no valid bearer; send authorization: Bearer <admin token>");
        return { service: "public", principal: adminToken.principal };
      },
    });
    publicGrpc.add(ContextServiceService, publicContextService(context), publicContextRules);
    const archiveParts = { projects, archives, imports, addresses, operator: adminToken.principal };
    publicGrpc.add(ArchiveServiceService, archiveService(archiveParts), archiveRules);
    publicGrpc.add(AdminServiceService, publicAdminService(admin, adminToken.principal), publicAdminRules);
    publicGrpc.add(ProjectServiceService, projectService({ projects, endpoints, addresses }), projectRules);
    if (telemetry !== null) {
      publicGrpc.add(TelemetryQueryServiceService, publicTelemetryService(telemetry, adminToken.principal), publicTelemetryRules);
    }
    addListener("public-grpc", publicGrpc);

    const progress = readiness.progress("project sweep", 6 * sweepEveryMs);
    let oldestOwed = 0;
    metrics.observedGauge(
      "iterate.projects.oldest_owed",
      { description: "Age of the oldest project whose announcement is owed.", unit: "s" },
      () => oldestOwed,
    );
    const sweepingImports = sweepProjects({
      projects: imports,
      stopping,
      pause,
      onRound: () => undefined,
      onFailure: (error) => log.warn("a round of the import sweep failed", { error }),
    });
    const sweeping = sweepProjects({
      projects,
      stopping,
      pause,
      onRound: () => {
        progress.tick();
        void oldestOwedSeconds(pool).then(
          (age) => (oldestOwed = age),
          () => undefined,
        );
      },
      onFailure: (error) => log.warn("a round of the project sweep failed", { error }),
    });

    onStop("clients", async () => {
      await Promise.all([sweeping, sweepingImports]);
      context.close();
      admin.close();
      archiveClient.close();
      secrets.close();
      repos.close();
      telemetry?.close();
      await forwarder.close();
    });
    // Sockets end first: their clients go to another pod while the listeners drain.
    stopping.addEventListener("abort", () => sockets.close(), { once: true });
  },
});

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await timer(ms, undefined, { signal }).catch(() => undefined);
}
