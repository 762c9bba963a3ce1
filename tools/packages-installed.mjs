// Exits 0 when node_modules holds exactly the versions package-lock.json names, so that a clone is not installed again for nothing.
// Plain JavaScript: it runs before anything is installed.
import { existsSync, readFileSync } from "node:fs";

const wanted = read("package-lock.json");
const installed = read("node_modules/.package-lock.json");
process.exit(wanted !== null && installed !== null && isInstalled(wanted, installed) ? 0 : 1);

function read(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")).packages : null;
}

function isInstalled(wanted, installed) {
  return Object.entries(wanted).every(([path, entry]) => {
    if (!path.includes("node_modules/")) return true;
    const found = installed[path];
    // Packages for other platforms are in the lock and not on disk.
    if (found === undefined) return entry.optional === true || entry.peer === true;
    return found.version === entry.version && found.resolved === entry.resolved && existsSync(path);
  });
}
