/**
 * Publishes one commit: build, probe in an isolate, then pointer and fact in one append to the project's root, then the subscription
 * rows that `iterate.toml` implies. Every step may be repeated: builds are cached by content, appends carry keys of the generation, rows
 * that say the same already are left alone.
 */
import type { Bundle, BundleEntry } from "@iterate-platform/proto/iterate/bundler/v1/build";
import type { ConfigPointer } from "@iterate-platform/proto/iterate/context/v1/context";
import type { Log } from "@iterate-platform/service/log";
import { eventCatalog, itx, project } from "iterate/events";
import { codedError, isCodedError, resolveContextPath, type CodedError } from "iterate/lib";
import type { BundleDescription, IsolateBundle, IsolatePool } from "../../isolate/client.js";
import type { NativeEnvironment } from "../native-hosts.js";
import type { BuildClient, PublishedCode } from "../published-code.js";
import type { Candidate, RowName } from "./contract.js";
import type { Outcome, Publisher } from "./processor.js";
import { appendOnce } from "./append-once.js";
import { SubscriptionRows } from "./subscription-rows.js";
import type { ContextLog } from "../../log/contract.js";

export interface PublisherParts {
  readonly log: ContextLog;
  readonly builds: Pick<BuildClient, "build">;
  readonly code: PublishedCode;
  readonly isolates: Pick<IsolatePool, "describe">;
  readonly newInvocationId: () => string;
  /** Lets subscriptions that wait after a failure be tried at once. */
  readonly endBackOff: (owner: string, rows: readonly RowName[]) => Promise<void>;
  /** Told, in the project's name, how each publication ended. */
  readonly report: Log;
}

const buildMs = 120_000;
/** The probe loads every module and constructs the default export. */
const probeMs = 5_000;
const maxErrorMessage = 8_000;

export class BundlePublisher implements Publisher {
  readonly #parts: PublisherParts;
  readonly #environment: NativeEnvironment;
  readonly #rows: SubscriptionRows;

  constructor(parts: PublisherParts, environment: NativeEnvironment) {
    this.#parts = parts;
    this.#environment = environment;
    this.#rows = new SubscriptionRows(parts.log, environment);
  }

  async publish(candidate: Candidate, former: readonly RowName[]): Promise<Outcome> {
    let bundle: Bundle;
    let description: BundleDescription;
    try {
      bundle = await this.#build(candidate);
      description = await this.#probe(bundle);
      assertPublishable(bundle, description);
    } catch (error) {
      return await this.#fail(candidate, refusal(error));
    }
    const before = await this.#parts.code.pointer(this.#environment.owner, this.#environment.scope.signal);
    try {
      await this.#point(candidate, bundle);
    } catch (error) {
      // The root has taken a newer generation already.
      if (isCodedError(error) && error.code === "OFFSET_CONFLICT") return await this.#fail(candidate, superseded(), "superseded");
      throw error;
    }
    const subscriptions = await this.#rows.configure(candidate, bundle.processors, description, bundle.entries, former);
    const mended = rowsWithNewCode(candidate, bundle, before);
    if (mended.length > 0) await this.#parts.endBackOff(this.#environment.owner, mended);
    this.#parts.report.info("a push is published", this.#about(candidate));
    return { status: "published", subscriptions };
  }

  async supersede(candidate: Candidate, by: Candidate): Promise<void> {
    await this.#fail(candidate, superseded(by.commitOid), "superseded");
  }

  async #build({ commitOid }: Candidate): Promise<Bundle> {
    const { owner, path, scope } = this.#environment;
    for await (const { step } of this.#parts.builds.build(
      { repo: { owner, path }, commit: commitOid },
      { deadlineMs: buildMs, signal: scope.signal },
    )) {
      if (step?.$case === "bundle") return step.value;
    }
    throw codedError("UNAVAILABLE", "the bundler ended a build without its result");
  }

  async #probe(bundle: Bundle): Promise<BundleDescription> {
    const { owner, scope } = this.#environment;
    const isolateBundle: IsolateBundle = this.#parts.code.bundle(owner, {
      digest: bundle.digest,
      mainModule: bundle.mainModule,
      modules: bundle.entries,
    });
    const host = {
      hostCall: () => Promise.reject(codedError("FORBIDDEN", "code is only described here; it may call itx once it is published")),
    };
    return await this.#parts.isolates.describe(
      {
        bundle: isolateBundle,
        invocationId: this.#parts.newInvocationId(),
        contextPath: "/",
        callerPath: "/",
        deadlineMs: probeMs,
        signal: scope.signal,
      },
      host,
    );
  }

  async #point({ offset, commitOid }: Candidate, bundle: Bundle): Promise<void> {
    const { path, writer } = this.#environment;
    const modules = bundle.entries.map(({ file, module, identity, classes }) => ({ file, module, identity, classes }));
    const source = { repo: path, commit: commitOid };
    const spec = {
      source,
      digest: bundle.digest,
      generation: offset,
      modules,
      mainModule: bundle.mainModule === "" ? null : bundle.mainModule,
    };
    const updated = {
      commitOid,
      generation: offset,
      digest: bundle.digest,
      modules: Object.fromEntries(modules.map(({ file, identity, classes }) => [file, { identity, classes }])),
    };
    await appendOnce(writer, "/", [
      {
        type: itx.rewriteRuleConfigured.type,
        payload: { match: "itx.config", target: ["itx", "builtins", "workers", ["get", spec]] },
        idempotencyKey: `project/pointer:${offset}`,
      },
      { type: project.workerUpdated.type, payload: updated, idempotencyKey: `project/worker-updated:${offset}` },
    ]);
  }

  async #fail({ offset, commitOid }: Candidate, error: CodedError, status: "failed" | "superseded" = "failed"): Promise<Outcome> {
    const payload = {
      commitOid,
      generation: offset,
      error: { code: error.code, message: error.message.slice(0, maxErrorMessage) },
    };
    await appendOnce(this.#environment.writer, "/", [
      { type: project.workerUpdateFailed.type, payload, idempotencyKey: `project/worker-update-failed:${offset}` },
    ]);
    const fields = { ...this.#about({ offset, commitOid }), code: error.code, reason: payload.error.message };
    if (status === "superseded") this.#parts.report.info("a push is superseded", fields);
    else this.#parts.report.warn("a push is not published", fields);
    return { status };
  }

  #about({ commitOid }: Candidate) {
    return { owner: this.#environment.owner, context: "/", commitOid };
  }
}

/**
 * The declared rows whose module is another than the published one's. When the publication is repeated the published one is its own:
 * then all of them, for nobody knows how far the attempt before had come.
 */
export function rowsWithNewCode(
  { offset }: Candidate,
  { processors, entries }: Pick<Bundle, "processors" | "entries">,
  before: Pick<ConfigPointer, "generation" | "modules"> | null,
): RowName[] {
  const identityBefore = new Map(
    before === null || before.generation === BigInt(offset) ? [] : before.modules.map(({ file, identity }) => [file, identity]),
  );
  const identity = new Map(entries.map((entry) => [entry.file, entry.identity]));
  return processors
    .filter(({ file }) => identityBefore.get(file) !== identity.get(file))
    .map(({ context, name }) => ({ context: resolveContextPath("/", context), name }));
}

/** Nothing is wrong with the commit: what came after it is published in its place. */
function superseded(by?: string): CodedError {
  return codedError(
    "OFFSET_CONFLICT",
    `superseded, not failed: main moved on${by === undefined ? "" : ` to ${by}`} before this commit was published, and the newest is published in its place`,
  );
}

/** What the commit itself is to blame for. @throws anything else: the candidate is then still owed. */
function refusal(error: unknown): CodedError {
  if (isCodedError(error) && error.code !== "CANCELLED" && (error.kind === "refused" || error.kind === "conflict")) return error;
  throw error;
}

/** @throws BUILD_FAILED when what `iterate.toml` declares is not what the modules export. */
function assertPublishable({ mainModule, processors, entries }: Bundle, { entryPoint, exports }: BundleDescription): void {
  if (mainModule !== "" && entryPoint?.isClass !== true)
    throw codedError(
      "BUILD_FAILED",
      `${fileOf(mainModule, entries)}: the default export must be a class that extends IterateConfigEntrypoint`,
    );
  for (const { name, file, className } of processors) {
    const module = entries.find((entry) => entry.file === file)?.module;
    const found = exports.find((exported) => exported.module === module && exported.name === className);
    if (found?.kind !== "processor") {
      throw codedError(
        "BUILD_FAILED",
        `iterate.toml: [processors.${name}] names ${className} of ${file}, which ${found === undefined ? "is not exported" : "is no StreamProcessorDurableObject"}`,
      );
    }
    const refused = found.contract?.emits.find((type) => eventCatalog.get(type)?.writer === "platform");
    if (refused !== undefined)
      throw codedError(
        "BUILD_FAILED",
        `${file}: the contract of ${className} emits ${JSON.stringify(refused)}, which the platform alone may append`,
      );
  }
}

function fileOf(module: string, entries: readonly BundleEntry[]): string {
  return entries.find((entry) => entry.module === module)?.file ?? module;
}
