// modern.mjs stdio|http - a server written on the SDK's 2.x packages: both eras, a question in rounds, structured content.
import { createServer } from "node:http";
import { McpServer, acceptedContent, createMcpHandler, fromJsonSchema, inputRequired } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { toNodeHandler } from "@modelcontextprotocol/node";

const object = (properties, required = Object.keys(properties)) => fromJsonSchema({ type: "object", properties, required });
const text = (words) => ({ content: [{ type: "text", text: words }] });

function make() {
  const server = new McpServer({ name: "modern", version: "2.0.0" });
  const number = { type: "number" };
  server.registerTool("add", { description: "Adds", inputSchema: object({ a: number, b: number }), outputSchema: object({ sum: number }) },
    async ({ a, b }) => ({ ...text(`${a + b}`), structuredContent: { sum: a + b } }));
  server.registerTool("greet", { description: "Asks who you are", inputSchema: object({}) }, async (_, context) => {
    const who = acceptedContent(context.mcpReq.inputResponses, "who");
    if (who) return text(`hello ${who.name}`);
    return inputRequired({ inputRequests: { who: inputRequired.elicit({ message: "Who are you?", requestedSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] } }) } });
  });
  server.registerTool("fail", { inputSchema: object({}) }, async () => ({ ...text("it went wrong"), isError: true }));
  server.registerResource("poem", "file:///poem.txt", { mimeType: "text/plain" }, async (uri) => ({ contents: [{ uri: uri.href, text: "roses\n" }] }));
  server.registerPrompt("review", { argsSchema: object({ code: { type: "string" } }) }, async ({ code }) => ({ messages: [{ role: "user", content: { type: "text", text: `Review ${code}` } }] }));
  return server;
}

if (process.argv[2] === "stdio") {
  serveStdio(make);
} else {
  const handler = toNodeHandler(createMcpHandler(make));
  const server = createServer((request, response) => handler(request, response));
  server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}/mcp`));
}
