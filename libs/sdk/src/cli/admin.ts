/** `iterate admin`: what the operator of a deployment does. */
import type { Command } from "commander";
import { connect, withCommonFlags, type CommonFlags } from "./command.js";
import { jsonLine } from "./output.js";
import type { Surroundings } from "./surroundings.js";

export function addAdminCommands(program: Command, surroundings: Surroundings): void {
  const { print } = surroundings;
  const admin = program.command("admin").description("what the operator of a deployment does");

  withCommonFlags(admin.command("log-restored"))
    .description("say that the databases of the log were restored from a backup, before anything is appended to them")
    .action(async (flags: CommonFlags) => {
      using connection = await connect(flags, surroundings);
      const restored = await connection.session.admin.declareLogRestored();
      const { generations } = restored;
      await print(
        flags.json
          ? jsonLine(restored)
          : `every context goes on 2^20 offsets above what its log holds (generation ${generations.join(", ")})\n`,
      );
    });
}
