// inspect.mjs - one question by the official MCP Inspector's command line.
import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const here = dirname(fileURLToPath(import.meta.url));
const inspector = join(here, "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js");

// It keeps files in the home folder: here, that is ours.
export async function inspect(target, era, ...args) {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [inspector, "--cli", ...target, "--protocol-era", era, "--format", "json", "-q", ...args],
    { env: { ...process.env, HOME: here }, timeout: 60000 },
  );
  const { result, ...rest } = JSON.parse(stdout);
  return result ?? rest;
}
