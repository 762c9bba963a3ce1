/** Who and where a context is: `whoami`, `url`, and `cd` to another. */
import { method } from "@iterate-platform/service/capability";
import type { ContextIdentity } from "iterate/api";
import { codedError } from "iterate/lib";
import { z } from "zod";
import { readableCore, type Heads } from "../../log/confirm.js";
import type { ContextAddress } from "../../log/contract.js";
import { none } from "../arguments.js";
import type { BuiltinCall, ContextRoot } from "../contract.js";

const identityTypes = `interface ContextIdentity {
  /** Project id, or "global". */
  projectId: string;
  /** What the project is called; empty outside of projects. */
  projectSlug: string;
  /** Absolute path of the context. */
  path: string;
}`;

export interface IdentityParts {
  readonly heads: Heads;
  /** Where the pages of a project answer. */
  readonly urlOf: (slug: string) => string;
}

export function identityRoots({ heads, urlOf }: IdentityParts): ContextRoot[] {
  return [
    {
      name: "whoami",
      isContextRoot: true,
      description: "Answers which context this is.",
      instructions: "Call it to learn the project and the path that the other calls of this context work on.",
      types: identityTypes,
      member: method(
        none,
        {
          signature: "() => Promise<ContextIdentity>",
          description: "The project, its slug and the path of the context.",
          example: "itx.whoami()",
          effect: "read",
        },
        async ({ address }): Promise<ContextIdentity> => ({
          projectId: address.owner,
          projectSlug: await slugOf(heads, address),
          path: address.path,
        }),
      ),
    },
    {
      name: "url",
      isContextRoot: true,
      description: "Answers where the pages of the project are.",
      instructions: "Call it for the address to send people to; add a path of your own behind its slash.",
      types: "",
      member: method(
        none,
        {
          signature: "() => Promise<string>",
          description: "Address of the project's pages, with a slash at its end.",
          example: "itx.url()",
          effect: "read",
        },
        async ({ address }: BuiltinCall) => {
          const slug = await slugOf(heads, address);
          if (slug !== "") return urlOf(slug);
          throw codedError("NOT_FOUND", `${address.owner} is no project with pages`, { owner: address.owner });
        },
      ),
    },
    {
      name: "cd",
      isContextRoot: true,
      description: "Goes on in another context of the same project.",
      instructions:
        'Put it before the call: `itx.cd("/agents/a").append(…)` is answered by the rules of `/agents/a`. The path is absolute, or resolved ' +
        "against this context: `..`, `./x`. One call goes through at most 16 contexts.",
      types: "",
      member: method(
        z.tuple([z.string()]),
        {
          signature: "(path: string) => Itx",
          description: "The surface of another context.",
          example: 'itx.cd("/").whoami()',
          effect: "read",
        },
        () => {
          // A call through `cd` is resolved in the other context: it never gets here.
          throw codedError("INTERNAL", "itx.cd was evaluated as a call");
        },
      ),
    },
  ];
}

async function slugOf(heads: Heads, { owner }: ContextAddress): Promise<string> {
  if (owner === "global") return "";
  const root = await heads.confirm({ owner, path: "/" });
  return root === undefined ? "" : (readableCore(root).project?.slug ?? "");
}
