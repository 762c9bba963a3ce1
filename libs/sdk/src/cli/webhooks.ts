/** `iterate webhooks`: addresses at which providers post deliveries. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import { webhookProviders, type CreatedWebhookEndpoint, type WebhookProvider } from "../api/webhook.js";
import { connect, projectHelp, withCommonFlags, type CommonFlags } from "./command.js";
import { UsageError } from "./failure.js";
import { jsonLine, table } from "./output.js";
import type { Surroundings } from "./surroundings.js";

interface ProjectFlags extends CommonFlags {
  readonly project: string;
}

interface CreateFlags extends ProjectFlags {
  readonly provider: WebhookProvider;
  readonly name?: string;
  readonly secretFile?: string;
}

export function addWebhookCommands(program: Command, surroundings: Surroundings): void {
  const { print } = surroundings;
  const webhooks = program.command("webhooks").description("addresses at which providers post deliveries");
  const inProject = (name: string): Command =>
    withCommonFlags(webhooks.command(name).requiredOption("--project <slug>", projectHelp));

  inProject("create")
    .description("make an endpoint; its secret is printed here and never again")
    .addOption(new Option("--provider <name>", "who posts to it").choices(webhookProviders).makeOptionMandatory())
    .option("--name <name>", "deliveries land in /integrations/<provider>/<name> (default main)")
    .option("--secret-file <path>", "file with the secret the provider signs with, - for standard input; without it one is made")
    .action(async (flags: CreateFlags) => {
      const secret = flags.secretFile === undefined ? undefined : await readSecret(flags.secretFile, surroundings);
      using connection = await connect(flags, surroundings);
      using project = await connection.session.projects.get(flags.project);
      const endpoint = await project.webhooks.create({
        provider: flags.provider,
        ...(flags.name === undefined ? {} : { name: flags.name }),
        ...(secret === undefined ? {} : { secret }),
      });
      await print(flags.json ? jsonLine(endpoint) : created(endpoint, secret !== undefined));
    });

  inProject("list")
    .description("list the endpoints of a project")
    .action(async (flags: ProjectFlags) => {
      using connection = await connect(flags, surroundings);
      using project = await connection.session.projects.get(flags.project);
      const all = await project.webhooks.list();
      if (flags.json) await print(jsonLine(all));
      else if (all.length === 0) await print("no endpoints yet; make one with `iterate webhooks create`\n");
      else
        await print(
          table(
            ["PROVIDER", "NAME", "CONTEXT", "URL"],
            all.map(({ provider, name, contextPath, url }) => [provider, name, contextPath, url]),
          ),
        );
    });
}

async function readSecret(path: string, { cwd, readInput }: Surroundings): Promise<string> {
  if (path === "-") return (await readInput()).trim();
  try {
    return readFileSync(resolve(cwd, path), "utf8").trim();
  } catch {
    throw new UsageError(`the secret file ${path} cannot be read`);
  }
}

function created({ provider, url, contextPath, secret }: CreatedWebhookEndpoint, isOwnSecret: boolean): string {
  return (
    table(
      ["url", url],
      [
        ["secret", isOwnSecret ? "the one you gave" : secret],
        ["content type", "application/json"],
        ["context", contextPath],
      ],
    ) + `give url and secret to ${provider}\n`
  );
}
