// Unpacks packages with the `tar` of npm, and removes their files. The argument is the folder to unpack below.
// Types, maps and texts are left out: they are half of all files, and nothing reads them.
// Each line of stdin is a JSON array of the path of a file, and the folder of what it holds.
import { mkdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const npm = join(process.execPath, "../../lib/node_modules/npm/package.json");
const tar = createRequire(npm)("tar");

const [modules] = process.argv.slice(2);
for await (const line of createInterface({ input: process.stdin })) {
  const [file, folder] = JSON.parse(line);
  const cwd = resolve(modules, folder);
  mkdirSync(cwd, { recursive: true });
  tar.extract({ file, cwd, strip: 1, sync: true, strict: true, filter: (path) => !/\.(map|md|[cm]?ts)$/.test(path) });
  rmSync(file);
}
