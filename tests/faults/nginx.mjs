// nginx.mjs - nginx with the settings that the guide shows (examples/cluster/nginx.conf), at ports of a test's own.
import { mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { end, folder, freePort, listens, start } from "./processes.mjs";

const SETTINGS = new URL("../../examples/cluster/nginx.conf", import.meta.url);

// The lines of its nodes, for as many as there are; everything else as it stands.
export function settings(port, nodes) {
  const text = readFileSync(SETTINGS, "utf8");
  const [line] = /^ *server 127\.0\.0\.1:8421.*\n/m.exec(text);
  const [all] = /(^ *server 127\.0\.0\.1:842[1-9].*\n)+/m.exec(text);
  return text.replace(all, nodes.map((node) => line.replace("8421", node)).join("")).replace("127.0.0.1:8420", `127.0.0.1:${port}`);
}

const around = (place, inner) => `daemon off; master_process off; pid ${place}/pid; error_log ${place}/error.log;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path ${place}/a; proxy_temp_path ${place}/b; fastcgi_temp_path ${place}/c;
  uwsgi_temp_path ${place}/d; scgi_temp_path ${place}/e;
${inner}}
`;

export class Nginx {
  async start(nodes, port) {
    this.port = port ?? (await freePort());
    this.folder = folder("nginx");
    const file = join(this.folder, "nginx.conf");
    for (const name of "abcde") mkdirSync(join(this.folder, name));
    writeFileSync(file, around(this.folder, settings(this.port, nodes)));
    const log = openSync(join(this.folder, "log"), "a");
    this.child = start("nginx", ["-e", "stderr", "-p", this.folder, "-c", file], { log });
    await listens(this.child, this.port, "nginx");
    return this;
  }
  get url() {
    return `http://127.0.0.1:${this.port}/mcp`;
  }
  kill() {
    return end(this.child, "SIGTERM");
  }
}
