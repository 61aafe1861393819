// schemas.mjs - everything that a server sent to the probes, on any transport, against the schema of its revision, by idem-validate. The one
// exception: an error whose request had no readable id says null, which is compared without it, as 2025-11-25 and later have it.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const OPTIONAL_ID = "2025-11-25"; // the first whose errors may go without an id
const results = {
  initialize: "InitializeResult", ping: "EmptyResult", "server/discover": "DiscoverResult", "tools/list": "ListToolsResult", "tools/call": "CallToolResult",
  "resources/list": "ListResourcesResult", "resources/templates/list": "ListResourceTemplatesResult", "resources/read": "ReadResourceResult",
  "resources/subscribe": "EmptyResult", "resources/unsubscribe": "EmptyResult", "subscriptions/listen": "SubscriptionsListenResult",
  "prompts/list": "ListPromptsResult", "prompts/get": "GetPromptResult", "completion/complete": "CompleteResult", "logging/setLevel": "EmptyResult",
  "tasks/get": "GetTaskResult", "tasks/result": "CallToolResult", "tasks/cancel": "CancelTaskResult",
};
const seen = new Map(); // "DATE TYPE" -> texts

function add(revision, type, value) {
  const key = `${revision} ${type}`;
  if (!seen.has(key)) seen.set(key, new Set());
  seen.get(key).add(JSON.stringify(value));
}

// `method` is what was asked, where that is known.
export function saw(revision, message, method) {
  for (const one of Array.isArray(message) ? message : [message]) {
    if (one.method) add(revision, "id" in one ? "ServerRequest" : "ServerNotification", one);
    else if (one.error && one.id === null) {
      const { id, ...rest } = one;
      add(revision < OPTIONAL_ID ? OPTIONAL_ID : revision, "JSONRPCErrorResponse", rest);
    } else if (one.error) add(revision, revision < OPTIONAL_ID ? "JSONRPCError" : "JSONRPCErrorResponse", one);
    else {
      add(revision, "JSONRPCResponse", one);
      const { result } = one;
      const type = result.resultType === "input_required" ? "InputRequiredResult" : !result.resultType && result.task ? "CreateTaskResult" : results[method];
      if (type) add(revision, type, result);
    }
  }
}

// The number of messages, and what is wrong with them.
export function judge(program) {
  const folder = join(process.env.IDEM_TEST_DATA ?? "../shared/data", "mcp-schema");
  if (!existsSync(folder)) {
    console.error(`MCP's schemas are absent (${folder}): messages were NOT checked against them`);
    return { count: 0, faults: process.env.CI === "true" ? ["no schemas"] : [] };
  }
  const work = mkdtempSync(join(tmpdir(), "idem-must-"));
  const faults = [];
  let count = 0;
  for (const [key, texts] of seen) {
    const [revision, type] = key.split(" ");
    const schema = JSON.parse(readFileSync(join(folder, `${revision}.json`), "utf8"));
    const holder = schema.$defs ? "$defs" : "definitions";
    if (!schema[holder][type]) faults.push(`${revision} has no ${type}`);
    Object.assign(schema, { type: "array", items: { $ref: `#/${holder}/${type}` } });
    writeFileSync(join(work, "schema.json"), JSON.stringify(schema));
    writeFileSync(join(work, "all.json"), `[${[...texts].join(",")}]`);
    const { status, stdout, stderr } = spawnSync(program, [join(work, "schema.json"), join(work, "all.json")], { encoding: "utf8" });
    if (status !== 0) faults.push(`${key}: ${stdout}${stderr}`.slice(0, 600));
    count += texts.size;
  }
  rmSync(work, { recursive: true });
  return { count, faults };
}
