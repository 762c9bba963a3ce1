/** Run when an image is built: collects the platform's modules beside the compiled worker, so that it needs no sources. */
import { writeFileSync } from "node:fs";
import { collectedFile, collectPlatformModules } from "./platform-modules.js";

const platform = await collectPlatformModules();
writeFileSync(collectedFile, JSON.stringify(platform));
process.stdout.write(`${Object.keys(platform.modules).length} modules, digest ${platform.digest}\n`);
