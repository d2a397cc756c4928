// Runs a program once for each line of stdin, a JSON array of arguments, because loading it is most of such a run.
// Arguments: its module, and the function that takes an argv; without one the module runs as it is loaded, and exits.
// Writes a line for each run: a JSON array of its exit code and what it wrote to stdout and stderr.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [program, entry] = process.argv.slice(2);
const address = pathToFileURL(program).href;
const write = process.stdout.write.bind(process.stdout);
const functions = entry ? await import(address) : {};

function load(number) {
  return new Promise((resolve, reject) => {
    process.exit = (code) => resolve(code ?? 0); // the first counts: nothing ends here
    import(`${address}?${number}`).catch(reject);
  });
}

function keep(texts) {
  return (text, ...more) => {
    texts.push(text);
    more.at(-1)?.call?.();
    return true;
  };
}

let number = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const [out, err] = [[], []];
  [process.stdout.write, process.stderr.write] = [keep(out), keep(err)];
  process.argv = [process.execPath, program, ...JSON.parse(line)];
  let code = 0;
  try {
    if (entry) await functions[entry](process.argv);
    else code = await load(number++);
  } catch (error) {
    code = 1;
    err.push(error?.stack ?? error);
  }
  write(`${JSON.stringify([code, out.join(""), err.join("")])}\n`);
}
process.exitCode = 0;
