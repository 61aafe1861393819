// server.mjs - a server on a free port for as long as somebody uses it. It must end with
// 0, which under the sanitizers means that it left no memory behind.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export async function withServer([program, ...args], use) {
  const child = spawn(program, [...args, "--http", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  const said = [];
  const ended = once(child, "exit");
  const url = await new Promise((resolve, reject) => {
    createInterface({ input: child.stderr }).on("line", (line) => {
      said.push(line);
      const found = /listening on (http:\S+)/.exec(line);
      if (found) resolve(found[1]);
    });
    ended.then(() => reject(new Error(said.join("\n"))));
  });
  // A server that died is the better explanation of why a conversation failed.
  const failure = await use({ url }).then(() => null, (error) => error);
  child.kill("SIGTERM");
  const [code] = await ended;
  if (code !== 0) throw new Error(`the server ended with ${code}:\n${said.join("\n")}`);
  if (failure) throw failure;
}
