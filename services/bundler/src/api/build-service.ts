/** `BuildService`: bundles of commits, for the services of the platform. */
import type {
  Bundle as WireBundle,
  BuildRequest,
  BuildResponse,
  BuildServiceService,
  GetBundleRequest,
  GetBundleResponse,
} from "@iterate-platform/proto/iterate/bundler/v1/build";
import type { CallContext, Handlers, MethodRules } from "@iterate-platform/service/grpc-server";
import { codedError } from "iterate/lib";
import type { Builder } from "../build/builder.js";
import type { Bundle, BuildStore } from "../build/build-store.js";
import type { Progress } from "../build/flights.js";
import { pieces, wireKind } from "../build/worker-client.js";
import { ownedRepo, requireOwner } from "./repo-ref.js";

export const buildRules: MethodRules<typeof BuildServiceService> = {
  build: { services: ["runner", "ingress"], execution: "allowed" },
  getBundle: { services: ["runner"], execution: "allowed" },
};

export function buildHandlers(builder: Builder, store: BuildStore): Handlers<typeof BuildServiceService> {
  return {
    async *build({ repo, commit }: BuildRequest, call: CallContext): AsyncGenerator<BuildResponse> {
      const name = ownedRepo(repo, call);
      const told: Progress[] = [];
      let wake: () => void = () => undefined;
      const done = builder.build({
        repo: name,
        commit,
        signal: call.signal,
        onProgress: (progress) => {
          told.push(progress);
          wake();
        },
      });
      // Ends the wait below; its failure is thrown where the result is taken.
      let isOver = false;
      const over = done.then(
        () => undefined,
        () => undefined,
      );
      void over.then(() => {
        isOver = true;
        wake();
      });
      for (;;) {
        for (let progress = told.shift(); progress !== undefined; progress = told.shift())
          yield { step: { $case: "progress", value: progress } };
        if (isOver) break;
        await new Promise<void>((resolve) => {
          wake = resolve;
          if (told.length > 0 || isOver) resolve();
        });
      }
      const { bundle, cached } = await done;
      yield { step: { $case: "bundle", value: wireBundle(bundle, commit, cached) } };
    },

    async *getBundle({ owner, digest }: GetBundleRequest, call: CallContext): AsyncGenerator<GetBundleResponse> {
      requireOwner(owner, call);
      if (!/^[0-9a-f]{64}$/.test(digest))
        throw codedError("INVALID_INPUT", `${JSON.stringify(digest.slice(0, 80))} is no digest of a build`);
      const { bundle, modules } = await store.read(owner, digest);
      yield { step: { $case: "bundle", value: wireBundle(bundle, "", true) } };
      for await (const { name, kind, data } of modules) {
        for (const piece of pieces(data))
          yield { step: { $case: "chunk", value: { name, kind: wireKind(kind), data: piece.data } } };
      }
    },
  };
}

function wireBundle({ digest, mainModule, entries, processors }: Bundle, commit: string, cached: boolean): WireBundle {
  return {
    digest,
    commit,
    mainModule: mainModule ?? "",
    entries: entries.map((entry) => ({ ...entry, classes: [...entry.classes] })),
    processors: processors.map((processor) => ({ ...processor })),
    cached,
  };
}
