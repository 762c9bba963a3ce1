/** A process that appends until a failpoint of its environment kills it: `<database url> <path> <append id of the second append>`. */
import { failpoint } from "@iterate-platform/service/failpoints";
import { startEngine } from "./engine.fixture.js";

const [url, path, appendId] = process.argv.slice(2) as [string, string, string];
const engine = startEngine({ url });
engine.failpoints.on("append.before-commit", () => failpoint("append.before-commit"));
engine.failpoints.on("append.after-commit", () => failpoint("append.after-commit"));
await engine.append(path, [{ payload: 0 }]);
await engine.append(path, [{ payload: 1 }, { payload: 2 }], { appendId });
