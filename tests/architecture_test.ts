import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { isJsonObject } from "../base/json.ts";

// Reads every source file and holds the program to its architecture: which folder may import which, and the few
// places through which time, chance, the network and the console may enter.

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");

/** Folders by level: a file imports from its own folder and from lower levels only. */
const LEVELS: Record<string, number> = {
  main: 6,
  release: 7,
  bench: 5,
  launcher: 5,
  router: 4,
  scorer: 3,
  embedded: 4.5,
  simulator: 4.5,
  ml: 2,
  page: 2,
  cfgs: 2,
  base: 1,
};

interface SourceFile {
  /** Relative to the root, with slashes. */
  readonly path: string;
  readonly folder: string;
  readonly text: string;
  /** The text with comments, strings, templates and regular expressions blanked; line breaks kept. */
  readonly code: string;
  readonly imports: readonly { readonly from: string; readonly typeOnly: boolean; readonly line: number }[];
}

function folderOf(path: string): string {
  const first = path.split("/")[0]!;
  return first === "main.ts" || first === "cli" ? "main" : first;
}

function listFiles(folder: string, suffixes: readonly string[]): string[] {
  const found: string[] = [];
  for (const entry of readdirSync(join(ROOT, folder), { withFileTypes: true })) {
    const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) {
      const skipped = ["node_modules", "dist", "fixtures"].includes(entry.name) || entry.name.startsWith(".");
      if (!skipped) found.push(...listFiles(path, suffixes));
    } else if (suffixes.some((suffix) => entry.name.endsWith(suffix))) found.push(path);
  }
  return found;
}

/** Blanks what is not code, so that words in comments and texts are no findings. Code inside `${}` stays. */
function blank(text: string): string {
  let out = "";
  let at = 0;
  // Depths of braces at which a template's `${` was opened.
  const templates: number[] = [];
  let braces = 0;
  const keepLines = (piece: string) => piece.replace(/[^\n]/g, " ");
  const skipTemplate = () => {
    const start = at;
    while (at < text.length) {
      if (text[at] === "\\") at += 2;
      else if (text[at] === "`") {
        at++;
        break;
      } else if (text.startsWith("${", at)) {
        at += 2;
        templates.push(braces++);
        break;
      } else at++;
    }
    out += keepLines(text.slice(start, at));
  };
  while (at < text.length) {
    const char = text[at]!;
    const rest = (pattern: RegExp): string | undefined => {
      pattern.lastIndex = at;
      return pattern.exec(text)?.[0];
    };
    let piece: string | undefined;
    if (char === "/" && text[at + 1] === "/") piece = rest(/\/\/[^\n]*/y);
    else if (char === "/" && text[at + 1] === "*") piece = rest(/\/\*[^]*?\*\//y);
    else if (char === '"') piece = rest(/"(?:\\[^]|[^"\\\n])*"/y);
    else if (char === "'") piece = rest(/'(?:\\[^]|[^'\\\n])*'/y);
    else if (char === "/" && /(?:^|[=(,:;!&|?{}[+>]|\breturn|\bcase)\s*$/.test(out.slice(-20))) {
      piece = rest(/\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*/y);
    }
    if (piece !== undefined) {
      out += keepLines(piece);
      at += piece.length;
    } else if (char === "`") {
      at++;
      out += " ";
      skipTemplate();
    } else if (char === "}" && templates.at(-1) === braces - 1) {
      templates.pop();
      braces--;
      at++;
      out += " ";
      skipTemplate();
    } else {
      if (char === "{") braces++;
      if (char === "}") braces--;
      out += char;
      at++;
    }
  }
  return out;
}

function readSource(path: string): SourceFile {
  const text = readFileSync(join(ROOT, path), "utf8");
  const code = blank(text);
  const imports = [];
  // Found in the text (specifiers are strings), counted only where the keyword is code.
  const pattern = /\b(import|export|require)\b(\s+type\b)?(?:[^;"'`(]*?\bfrom)?\s*\(?\s*["']([^"'\n]+)["']/g;
  for (const match of text.matchAll(pattern)) {
    const keyword = match[1]!;
    if (code.slice(match.index, match.index + keyword.length) !== keyword) continue;
    imports.push({
      from: match[3]!,
      typeOnly: match[2] !== undefined,
      line: text.slice(0, match.index).split("\n").length,
    });
  }
  return { path, folder: folderOf(path), text, code, imports };
}

const sources = listFiles("", [".ts", ".cjs"]).filter((path) => !path.startsWith("tests/")).map(readSource);
const tests = listFiles("tests", [".ts"]).map(readSource);

/** Lines of `code` that match, as `path:line: what`. */
function findings(file: SourceFile, pattern: RegExp, what: string): string[] {
  return file.code.split("\n").flatMap((line, index) => {
    const match = pattern.exec(line);
    return match === null ? [] : [`${file.path}:${index + 1}: ${match[0].trim()}: ${what}`];
  });
}

/** Fails with one finding per line. */
function assertNone(found: readonly string[]): void {
  assert.equal(found.length, 0, `\n${found.join("\n")}\n`);
}

/** Names that only the given files may use. */
function assertOnlyIn(allowed: (path: string) => boolean, pattern: RegExp, what: string): void {
  assertNone(sources.filter((file) => !allowed(file.path)).flatMap((file) => findings(file, pattern, what)));
}

test("the reader of sources blanks comments, strings, templates and expressions, and keeps code in templates", () => {
  const text =
    'a(); // fetch(\n/* fetch( */ b = "fetch(\\"" + `x fetch( ${fetch(`in ${c} fetch(`)} }` + \'y\';\n' +
    'const r = /fetch\\("/.test(d / e / f);';
  const code = blank(text);
  assert.equal(code.length, text.length);
  assert.equal(code.split("fetch(").length - 1, 1);
  assert.match(code, /const r = +\.test\(d \/ e \/ f\);/);
  assert.ok(sources.length > 10, "sources were found");
});

test("imports go release → main → bench, launcher, embedded → router → scorer → ml, cfgs → base, never upwards", () => {
  const found: string[] = [];
  for (const file of sources) {
    const level = LEVELS[file.folder];
    if (level === undefined) {
      found.push(
        `${file.path}: folder ${file.folder} has no place in the architecture: put the file elsewhere`,
      );
      continue;
    }
    for (const { from, line } of file.imports) {
      if (!from.startsWith(".")) continue;
      const target = normalize(join(dirname(file.path), from)).replaceAll("\\", "/");
      const targetFolder = folderOf(target);
      const targetLevel = LEVELS[targetFolder];
      if (
        target === "package.json" || targetFolder === file.folder ||
        (targetLevel !== undefined && targetLevel < level!)
      ) continue;
      found.push(`${file.path}:${line}: imports ${target}: ${file.folder} may not import ${targetFolder}`);
    }
  }
  assertNone(found);
});

test("base imports nothing of the program, and the router knows the scorer by its interface only", () => {
  const found: string[] = [];
  for (const file of sources) {
    for (const { from, typeOnly, line } of file.imports) {
      if (!from.startsWith(".")) continue;
      const target = normalize(join(dirname(file.path), from)).replaceAll("\\", "/");
      if (file.folder === "base" && folderOf(target) !== "base") {
        found.push(`${file.path}:${line}: imports ${target}: base imports nothing of the program`);
      }
      const isInterface = typeOnly || target === "scorer/scorer.ts";
      if (file.folder === "router" && folderOf(target) === "scorer" && !isInterface) {
        found.push(
          `${file.path}:${line}: imports ${target}: the router may import types and scorer/scorer.ts only`,
        );
      }
    }
  }
  assertNone(found);
});

test("relative imports carry their extension, packages are bare names from package.json, of undici only llhttp", () => {
  const manifest: unknown = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  assert.ok(
    isJsonObject(manifest) && isJsonObject(manifest.dependencies) && isJsonObject(manifest.devDependencies),
  );
  const runtime = Object.keys(manifest.dependencies);
  const development = [...runtime, ...Object.keys(manifest.devDependencies)];
  const found: string[] = [];
  const check = (file: SourceFile, known: readonly string[]) => {
    for (const { from, line } of file.imports) {
      const at = `${file.path}:${line}: imports ${from}`;
      if (from.startsWith("node:")) continue;
      if (from.startsWith(".")) {
        if (!/\.(ts|cjs|json|jsonc|jsonl|csv|html|css|js|svg|txt|md|py)$/.test(from)) {
          found.push(`${at}: write the extension`);
        }
        continue;
      }
      const name = from.split("/").slice(0, from.startsWith("@") ? 2 : 1).join("/");
      if (from === "bun:test" || /^(https?|jsr|npm):/.test(from)) {
        found.push(`${at}: only bare names from package.json and node: builtins`);
      } else if (!known.includes(name)) found.push(`${at}: ${name} is not in package.json`);
      else if (name === "undici" && !from.startsWith("undici/lib/llhttp/")) {
        found.push(`${at}: only its parser is used: undici/lib/llhttp/`);
      } else if (name === "undici" && !file.path.endsWith(".cjs")) {
        // Bun's bundler gives an imported module of CommonJS a getter for each property: here, for each byte.
        found.push(`${at}: its bytes are imported by router/wire/llhttp_binary.cjs`);
      }
    }
  };
  for (const file of sources) check(file, runtime);
  for (const file of tests) check(file, development);
  assertNone(found);
});

test("dependencies have exact versions, and every one of them is used", () => {
  const manifest: unknown = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  assert.ok(
    isJsonObject(manifest) && isJsonObject(manifest.dependencies) && isJsonObject(manifest.devDependencies),
  );
  const found: string[] = [];
  for (const [name, version] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })) {
    if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(String(version))) {
      found.push(`package.json: ${name} ${version}: must be one exact version`);
    }
  }
  const used = new Set(sources.flatMap((file) => file.imports.map(({ from }) => from)));
  for (const name of Object.keys(manifest.dependencies)) {
    if (![...used].some((from) => from === name || from.startsWith(`${name}/`))) {
      found.push(`package.json: ${name}: no source imports it: remove it`);
    }
  }
  assertNone(found);
});

test("time comes from base/clock.ts only", () => {
  assertOnlyIn(
    (path) => path === "base/clock.ts" || path.startsWith("page/"),
    /\b(Date\.now|new Date\(\)|performance\.now|process\.hrtime|setTimeout|setInterval|setImmediate|AbortSignal\.timeout)\b/,
    "take a Clock (base/clock.ts)",
  );
});

test("tests wait for what happens, not for a time, and their limits are for what hangs", () => {
  // Engines of their own pace: real ones, in this process, and one that writes word by word.
  const paced = /^tests\/(engines|embedded|ml)\/|^tests\/e2e\/early_exit_test\.ts$/;
  const timed = /\b(Date\.now|performance\.now|setTimeout|setInterval|AbortSignal\.timeout\((?!HANG_MS))/;
  const what = "take until or HANG_MS (tests/until.ts), or a VirtualClock";
  assertNone(
    tests.filter(({ path }) => !paced.test(path)).flatMap((file) => findings(file, timed, what)),
  );
});

test("chance comes from base/random.ts only", () => {
  assertOnlyIn(
    (path) => path === "base/random.ts" || path.startsWith("page/"),
    /\b(Math\.random|crypto\.getRandomValues|randomUUID|randomBytes|randomInt)\b/,
    "take a Random (base/random.ts)",
  );
});

test("properties take their seed from tests/properties.ts", () => {
  assertNone(
    [...sources, ...tests].flatMap(({ path, imports }) =>
      imports.flatMap(({ from, line }) =>
        from === "fast-check" && path !== "tests/properties.ts"
          ? [`${path}:${line}: import { fc } from tests/properties.ts`]
          : []
      )
    ),
  );
});

test("tests that fetch, or send spans, keep from the machine's proxy by tests/loopback.ts", () => {
  const found = tests.flatMap(({ path, code, imports }) => {
    const kept = imports.some(({ from }) => /\/(loopback|binary)\.ts$/.test(from));
    return kept || !/(?<![.\w])(fetch|otlpSpans)\(/.test(code) ? [] : [`${path}: import tests/loopback.ts`];
  });
  assertNone(found);
});

/** The sockets of the real transport, its comparison with `fetch`, and the floor that routers are measured against. */
const TRANSPORTS = [
  "router/transport/bun_socket.ts",
  "router/transport/node_socket.ts",
  "bench/micro/transport/transport.ts",
  "bench/micro/peers/floor.ts",
];

test("workers are reached through the transports only", () => {
  // The last part leaves out methods' signatures: `fetch(request: Request)`.
  const call =
    /(?<![.\w])(globalThis\.)?(fetch|new WebSocket|new EventSource|Deno\.connect|Bun\.connect)\s*\((?!\s*\w+\??:)/;
  assertOnlyIn(
    (path) => TRANSPORTS.includes(path) || path.startsWith("page/"),
    call,
    "send through a Transport",
  );
  const modules = /^(undici(?!\/lib\/llhttp\/).*|node:(http|https|http2|net|tls|dgram))$/;
  const found: string[] = [];
  for (const file of sources) {
    if (TRANSPORTS.includes(file.path) || isServerStart(file.path)) continue;
    for (const { from, typeOnly, line } of file.imports) {
      if (!typeOnly && modules.test(from)) {
        found.push(`${file.path}:${line}: imports ${from}: send through a Transport`);
      }
    }
  }
  assertNone(found);
});

/** Where a port is opened: the router's server, the simulator's, and doctor, which tries whether ports are free. */
function isServerStart(path: string): boolean {
  return [
    "router/http/server/serve_http.ts",
    "simulator/serve.ts",
    "bench/micro/loop_pause/others_thread.ts",
    "bench/micro/peers/floor.ts",
    "bench/micro/transport/server.ts",
    "cli/kit/ports.ts",
  ]
    .includes(path);
}

test("ports are opened by the two servers only, and other runtime-specific code stays with them", () => {
  assertOnlyIn(
    (path) => TRANSPORTS.includes(path) || isServerStart(path),
    /\b(Deno|Bun)\.\w+/,
    "use web standards and node: builtins",
  );
  assertOnlyIn(
    isServerStart,
    /\b(Deno\.serve|Bun\.serve|createServer)\b/,
    "start servers in the server files",
  );
});

test("threads are started, and functions of C called, in one place each", () => {
  const threads = [
    "ml/onnx/thread.ts",
    "scorer/thread/worker.ts",
    "cli/kit/router/serving_worker.ts",
    "embedded/thread/worker.ts",
    "ml/tokenizers/encoder_worker.ts",
    "router/archive/archive_worker.ts",
    "bench/micro/loop_delay_thread.ts",
    "bench/micro/loop_pause/others_thread.ts",
  ];
  assertNone(
    sources.filter(({ path, imports }) =>
      !threads.includes(path) && imports.some(({ from }) => from === "node:worker_threads")
    ).map(({ path }) => `${path}: start threads by startThread (ml/onnx/thread.ts)`),
  );
  assertNone(
    sources.filter((file) => file.path !== "ml/onnx/foreign_functions.ts" && file.text.includes('"bun:ffi"'))
      .map((file) => `${file.path}: take foreignFunctions (ml/onnx/foreign_functions.ts)`),
  );
});

test("only main.ts, cli/ and the scripts of benchmarks and releases write to the console or end the process", () => {
  const mayWrite = (path: string) =>
    path === "main.ts" || path.startsWith("cli/") || /^(bench\/micro|release)\//.test(path);
  assertOnlyIn(mayWrite, /\bconsole\.\w+/, "log through base/log.ts, or report in cli/");
  assertOnlyIn(
    (path) => mayWrite(path) || path === "base/log.ts",
    /\bprocess\.(exit|exitCode|stdout|stderr)\b/,
    "main.ts decides",
  );
});

test("types are not switched off", () => {
  const found: string[] = [];
  for (const file of [...sources, ...tests]) {
    found.push(...findings(file, /(?:[:<|&,(]|\bas)\s*any\b(?!\s*[:(=])/, "no any: use unknown and check"));
    found.push(...findings(file, /\bas\s+unknown\s+as\b/, "no double casts: check the value"));
    for (const [index, line] of file.text.split("\n").entries()) {
      if (/(\/\/|\/\*)\s*@ts-(ignore|expect-error|nocheck)/.test(line)) {
        found.push(`${file.path}:${index + 1}: no ${/@ts-[a-z-]+/.exec(line)?.[0]}`);
      }
    }
  }
  assertNone(found);
});

test("nothing is exported as default, and no file only exports what others hold", () => {
  const found: string[] = [];
  for (const file of sources) {
    // Declarations say how files that are imported as texts are given by the runtimes.
    if (!file.path.endsWith(".d.ts")) {
      found.push(...findings(file, /\bexport\s+default\b/, "export it by name"));
    }
    found.push(...findings(file, /\bexport\s+\*/, "import from the file that holds it"));
  }
  assertNone(found);
});

test("no source has notes of work left to do", () => {
  const found = sources.flatMap((file) =>
    file.text.split("\n").flatMap((line, index) =>
      /\b(TODO|FIXME|XXX|HACK)\b/.test(line) ? [`${file.path}:${index + 1}: do it, or leave it out`] : []
    )
  );
  assertNone(found);
});

test("names of files are snake_case, and tests mirror the tree", () => {
  const found: string[] = [];
  for (const file of [...sources, ...tests]) {
    const name = file.path.split("/").at(-1)!;
    if (!/^[a-z0-9_]+(\.d)?\.(ts|cjs)$/.test(name)) {
      found.push(`${file.path}: name it in snake_case`);
    }
  }
  const folders = new Set([
    ...Object.keys(LEVELS),
    "cli",
    "conformance",
    "simulation",
    "chaos",
    "e2e",
    "engines",
    "browser",
  ]);
  for (const file of tests) {
    const [, folder] = relative(ROOT, join(ROOT, file.path)).split(/[\\/]/);
    if (folder?.endsWith(".ts") || folders.has(folder ?? "")) continue;
    found.push(`${file.path}: tests/${folder} mirrors no folder`);
  }
  assertNone(found);
});
