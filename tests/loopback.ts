import process from "node:process";

// To import where a test fetches from servers of its own: on a machine with a proxy `fetch` would ask that for them.
for (const name of ["NO_PROXY", "no_proxy"]) {
  process.env[name] = [process.env[name], "127.0.0.1", "localhost"].filter(Boolean).join(",");
}
