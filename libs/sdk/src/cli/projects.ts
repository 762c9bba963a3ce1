/** `iterate projects`: create and list projects. */
import { Option, type Command } from "commander";
import { projectTemplates, type ProjectInfo, type ProjectTemplate } from "../api/session.js";
import { connect, withCommonFlags, type CommonFlags } from "./command.js";
import { jsonLine, printable, table } from "./output.js";
import type { Surroundings } from "./surroundings.js";

interface CreateFlags extends CommonFlags {
  readonly template?: ProjectTemplate;
}

export function addProjectCommands(program: Command, surroundings: Surroundings): void {
  const { print } = surroundings;
  const projects = program.command("projects").description("create and list projects");

  withCommonFlags(projects.command("create"))
    .description("create a project")
    .argument("<slug>", "its name in addresses: lower-case letters, digits and dashes")
    .addOption(
      new Option("--template <name>", "what its config repo starts with; without it the repo is empty").choices(projectTemplates),
    )
    .action(async (slug: string, flags: CreateFlags) => {
      using connection = await connect(flags, surroundings);
      const project = await connection.session.projects.create({
        slug,
        ...(flags.template === undefined ? {} : { template: flags.template }),
      });
      await print(flags.json ? jsonLine(project) : created(project));
    });

  withCommonFlags(projects.command("list"))
    .description("list all projects")
    .action(async (flags: CommonFlags) => {
      using connection = await connect(flags, surroundings);
      const all: ProjectInfo[] = [];
      for (let after: string | null = ""; after !== null;) {
        const page: { readonly projects: readonly ProjectInfo[]; readonly next: string | null } =
          await connection.session.projects.list(after === "" ? {} : { after });
        all.push(...page.projects);
        after = page.next;
      }
      if (flags.json) await print(jsonLine(all));
      else if (all.length === 0) await print("no projects yet; make one with `iterate projects create <slug>`\n");
      else
        await print(
          table(
            ["SLUG", "ID", "CREATED"],
            all.map(({ slug, id, createdAt }) => [slug, id, createdAt]),
          ),
        );
    });
}

function created({ slug, id, url, gitUrl }: ProjectInfo): string {
  return `${printable(`created ${slug} (${id})`)}\n${table(["pages", url], [["git", gitUrl]])}`;
}
