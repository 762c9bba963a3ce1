// Makes the images of the services: `node tools/images.mjs [service …]`, all of them unless some are named. What an image holds is
// staged in .cache/images first (`--stage` ends there, for another builder): the compiled workspaces, and of node_modules what they need
// at run time. Built by buildah on BASE, or on a stand-in of it that is made from Debian's packages and this machine's Node.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

const root = join(import.meta.dirname, "..");
const cache = join(root, ".cache/images");
const images = ["ingress", "context", "runner", "bundler", "telemetry"];

/** Declared by services for their tests, and far too large to ship. */
const leftOut = ["@iterate-platform/testing"];
/** What a workspace needs beside its compiled modules. */
const workspaceParts = ["package.json", "dist", "migrations", "descriptor-set.binpb"];
const notRun = /\.([cm]?ts|map|tsbuildinfo)$|\.(test|fixture)\.js$/;

const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages;
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

const args = process.argv.slice(2);
const named = args.filter((arg) => !arg.startsWith("--"));
try {
  const chosen = named.length === 0 ? images : named;
  const unknown = chosen.filter((name) => !images.includes(name));
  if (unknown.length > 0) throw new Error(`there is no image ${unknown.join(", ")}; there are ${images.join(", ")}`);
  const base = args.includes("--stage") ? undefined : baseImage();
  for (const name of chosen) {
    stage(name);
    if (base !== undefined) build(name, base);
  }
} catch (error) {
  process.stderr.write(`images: ${error.message}\n`);
  process.exit(1);
}

/** Puts what the image of a service holds into a folder, laid out as the repository is. */
function stage(name) {
  const folder = join(cache, name);
  const workspace = `services/${name}`;
  if (!existsSync(join(root, workspace, "dist/main.js"))) throw new Error(`${workspace} is not compiled; run \`make setup\``);
  rmSync(folder, { recursive: true, force: true });
  const staged = new Set();
  const add = (path) => {
    if (staged.has(path)) return;
    staged.add(path);
    if (path.startsWith("node_modules/") || path.includes("/node_modules/")) copyPackage(path, folder);
    else for (const part of workspaceParts) copy(join(root, path, part), join(folder, path, part));
    const { dependencies = {}, optionalDependencies = {} } = lock[path];
    for (const dependency of Object.keys({ ...dependencies, ...optionalDependencies })) {
      if (leftOut.includes(dependency)) continue;
      const found = resolve(dependency, path);
      if (found === undefined) continue;
      if (lock[found].link !== true) add(found);
      else {
        add(lock[found].resolved);
        link(join(folder, found), join(folder, lock[found].resolved));
      }
    }
  };
  add(workspace);
  if (name === "ingress") cpSync(join(root, "docs/examples"), join(folder, "docs/examples"), { recursive: true });
  if (name === "bundler") collectPlatformModules(folder);
}

/** Where a package finds another, as Node looks for it; nothing when it is not installed on this platform. */
function resolve(dependency, from) {
  for (let folder = from; ; folder = dirname(folder)) {
    const path = join(folder, "node_modules", dependency).replace(/^\.\//, "");
    if (path in lock && existsSync(join(root, path))) return path;
    if (folder === ".") return undefined;
  }
}

/** Copies a package without those inside it: they are found, and copied, one by one. */
function copyPackage(path, folder) {
  const source = join(root, path);
  copy(source, join(folder, path), (file) => relative(source, file).split("/")[0] !== "node_modules");
}

function copy(source, target, isWanted = () => true) {
  if (existsSync(source))
    cpSync(source, target, { recursive: true, verbatimSymlinks: true, filter: (file) => isWanted(file) && !notRun.test(file) });
}

function link(from, to) {
  if (existsSync(from)) return;
  mkdirSync(dirname(from), { recursive: true });
  symlinkSync(relative(dirname(from), to), from);
}

/** What project code may import is read from the SDK's sources, which the image then does without. */
function collectPlatformModules(folder) {
  const sources = join(folder, "libs/sdk/src");
  cpSync(join(root, "libs/sdk/src"), sources, { recursive: true });
  run(process.execPath, [join(folder, "services/bundler/dist/build/write-platform-modules.js")]);
  rmSync(sources, { recursive: true });
}

function build(name, base) {
  const tag = `localhost/iterate/${name}:${version}`;
  const file = join("services", name, "Dockerfile");
  // The one before would stay as an image without a name.
  spawnSync("buildah", ["rmi", tag], { stdio: "ignore" });
  run("buildah", [
    "bud",
    "--isolation",
    "chroot",
    "--pull-never",
    "--quiet",
    "--build-arg",
    `BASE=${base}`,
    "--file",
    file,
    "--tag",
    tag,
    ".",
  ]);
  process.stderr.write(`images: ${tag}\n`);
}

/** BASE, else the stand-in, which is made once for each version of Node. */
function baseImage() {
  if (process.env.BASE) return process.env.BASE;
  const tag = `localhost/iterate/base:node-${process.versions.node}`;
  if (spawnSync("buildah", ["inspect", "--type", "image", tag], { stdio: "ignore" }).status === 0) return tag;
  process.stderr.write("images: making a stand-in of the base image; set BASE to use another\n");
  const rootfs = join(cache, "base");
  rmSync(rootfs, { recursive: true, force: true });
  mkdirSync(cache, { recursive: true });
  run("debootstrap", ["--variant=minbase", "--include=ca-certificates,git,libstdc++6", "bookworm", rootfs]);
  for (const name of readdirSync(join(rootfs, "var/cache/apt/archives")))
    rmSync(join(rootfs, "var/cache/apt/archives", name), { recursive: true });
  cpSync(process.execPath, join(rootfs, "usr/local/bin/node"));
  writeFileSync(join(cache, "Dockerfile.base"), "FROM scratch\nCOPY base /\n");
  run("buildah", ["bud", "--isolation", "chroot", "--quiet", "--file", join(cache, "Dockerfile.base"), "--tag", tag, cache]);
  rmSync(rootfs, { recursive: true, force: true });
  return tag;
}

/** Runs to the end; what it says is shown only when it fails. */
function run(program, args) {
  const { status, error, stdout, stderr } = spawnSync(program, args, { cwd: root, encoding: "utf8", maxBuffer: 64 * 2 ** 20 });
  if (status === 0) return;
  const reason =
    error?.code === "ENOENT"
      ? "it is not installed"
      : (error?.message ?? `${stdout}${stderr}`.trim().split("\n").slice(-20).join("\n"));
  throw new Error(`${program} ${args[0]} failed: ${reason}`);
}
