import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import ts from "typescript";

// Holds the house to its picture in ARCHITECTURE.md: rooms and their floors, no circles, small folders, one meaning for
// each exported name, functions that fit on a screen.

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");
const MAX_FILES = 20;
const MAX_FUNCTION_LINES = 70;

function listFiles(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
    const skipped = ["node_modules", "dist", "fixtures"].includes(entry.name) || entry.name.startsWith(".");
    if (entry.isDirectory()) return skipped ? [] : listFiles(path);
    return path.endsWith(".ts") ? [path] : [];
  });
}

const everything = listFiles("").map((path) => ({ path }));
const sources = everything.filter(({ path }) => !path.startsWith("tests/")).map(({ path }) => {
  const text = readFileSync(join(ROOT, path), "utf8");
  // Comments are no part of what is looked for.
  const how = { languageVersion: ts.ScriptTarget.Latest, jsDocParsingMode: ts.JSDocParsingMode.ParseNone };
  return { path, syntax: ts.createSourceFile(path, text, how) };
});
type SourceFile = (typeof sources)[number];

/** The files of the project that a file imports, `import()` and re-exports included. */
function importsOf({ path, syntax }: SourceFile): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const specifier = ts.isImportDeclaration(node) || ts.isExportDeclaration(node)
      ? node.moduleSpecifier
      : ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword
      ? node.arguments[0]
      : undefined;
    if (specifier !== undefined && ts.isStringLiteral(specifier) && specifier.text.startsWith(".")) {
      found.push(normalize(join(dirname(path), specifier.text)).replaceAll("\\", "/"));
    }
    ts.forEachChild(node, visit);
  };
  visit(syntax);
  return found;
}

/** An import as seen from the folder in which the ways of both files part: between two of its entries. */
interface Arrow {
  readonly folder: string;
  readonly from: string;
  readonly to: string;
  /** `file -> file`. */
  readonly files: string;
}

function arrowsOf(files: readonly SourceFile[]): Arrow[] {
  const known = new Set(files.map(({ path }) => path));
  return files.flatMap((file) =>
    importsOf(file).filter((target) => known.has(target) && target !== file.path).map((target) => {
      const from = file.path.split("/");
      const to = target.split("/");
      let depth = 0;
      while (from[depth] === to[depth]) depth++;
      return {
        folder: from.slice(0, depth).join("/"),
        from: from[depth]!,
        to: to[depth]!,
        files: `${file.path} -> ${target}`,
      };
    })
  );
}

const arrows = arrowsOf(sources);

/** Fails with one finding per line. */
function assertNone(found: readonly string[]): void {
  assert.equal(found.length, 0, `\n${found.join("\n")}\n`);
}

/** The arrows of one folder that lie on a circle. */
function circling(all: readonly Arrow[]): Arrow[] {
  const reached = new Map<string, Set<string>>();
  const reach = (start: string): Set<string> => {
    const known = reached.get(start);
    if (known !== undefined) return known;
    const seen = new Set<string>();
    const open = [start];
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      for (const { from, to } of all) {
        if (from !== at || seen.has(to)) continue;
        seen.add(to);
        open.push(to);
      }
    }
    reached.set(start, seen);
    return seen;
  };
  return all.filter(({ from, to }) => reach(to).has(from));
}

test("what stands in a folder, files and folders, imports each other in no circle, on any level", () => {
  const byFolder = Map.groupBy(arrows, ({ folder }) => folder);
  assertNone(
    [...byFolder].flatMap(([folder, all]) =>
      circling(all).map(({ from, to, files }) => `${folder || "."}: ${from} <-> ${to}: ${files}`)
    ),
  );
});

/** The floors of each folder in the picture: `folder: top > middle left > ground`. */
function readFloors(): Map<string, string[][]> {
  const text = readFileSync(join(ROOT, "ARCHITECTURE.md"), "utf8");
  const picture = /```rooms\n([^]*?)```/.exec(text)?.[1] ?? "";
  return new Map(
    picture.trim().split("\n").map((line) => {
      const [folder = "", floors = ""] = line.split(/:\s+/);
      return [folder === "." ? "" : folder, floors.split(" > ").map((floor) => floor.trim().split(/\s+/))];
    }),
  );
}

test("imports go down the floors of the picture in ARCHITECTURE.md, and every room has a place in it", () => {
  const floors = readFloors();
  assert.ok(floors.size > 8, "the picture was found");
  const found: string[] = [];
  for (const [folder, rows] of floors) {
    const floorOf = new Map(rows.flatMap((row, at) => row.map((name) => [name, at] as const)));
    for (const { from, to, files } of arrows.filter((arrow) => arrow.folder === folder)) {
      if (to === "package.json") continue;
      const [above, below] = [floorOf.get(from), floorOf.get(to)];
      if (above === undefined) found.push(`${folder}: ${from} has no place in the picture (${files})`);
      else if (below === undefined) found.push(`${folder}: ${to} has no place in the picture (${files})`);
      else if (above >= below) found.push(`${folder}: ${from} may not import ${to}: ${files}`);
    }
    for (const name of floorOf.keys()) {
      const path = folder === "" ? name : `${folder}/${name}`;
      const stands = everything.some((file) => file.path === path || file.path.startsWith(`${path}/`));
      if (!stands) found.push(`${path} is in the picture, and not in the house`);
    }
  }
  const folders = new Set(
    sources.flatMap(({ path }) =>
      path.split("/").slice(0, -1).map((_, at, all) => all.slice(0, at + 1).join("/"))
    ),
  );
  for (const folder of folders) {
    const inside = [...folders].some((other) => dirname(other) === folder);
    if (inside && !floors.has(folder)) {
      found.push(`${folder} has rooms of its own, and no line in the picture`);
    }
  }
  assertNone(found);
});

test(`no folder has more than ${MAX_FILES} source files`, () => {
  const byFolder = Map.groupBy(everything, ({ path }) => dirname(path));
  assertNone(
    [...byFolder].filter(([, files]) => files.length > MAX_FILES)
      .map(([folder, files]) => `${folder}: ${files.length} files: give its ideas folders`),
  );
});

/** Names that a file declares and exports. */
function exportsOf({ syntax }: SourceFile): string[] {
  return syntax.statements.flatMap((statement) => {
    const exported = ts.canHaveModifiers(statement) &&
      ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) === true;
    if (!exported) return [];
    if (ts.isVariableStatement(statement)) {
      return statement.declarationList.declarations.map(({ name }) => name.getText(syntax));
    }
    const { name } = statement as ts.DeclarationStatement;
    return name === undefined ? [] : [name.getText(syntax)];
  });
}

test("an exported name is declared once in the project", () => {
  const holders = new Map<string, Set<string>>();
  for (const file of sources) {
    for (const name of exportsOf(file)) holders.set(name, (holders.get(name) ?? new Set()).add(file.path));
  }
  assertNone(
    [...holders].filter(([, paths]) => paths.size > 1)
      .map(([name, paths]) => `${name}: ${[...paths].join(", ")}: one name, one meaning`),
  );
});

test(`functions have at most ${MAX_FUNCTION_LINES} lines`, () => {
  const found: string[] = [];
  for (const { path, syntax } of sources) {
    const lineOf = (position: number) => syntax.getLineAndCharacterOfPosition(position).line + 1;
    const visit = (node: ts.Node): void => {
      if (ts.isFunctionLike(node) && "body" in node && node.body !== undefined) {
        const [first, last] = [lineOf(node.getStart(syntax)), lineOf(node.getEnd())];
        if (last - first >= MAX_FUNCTION_LINES) found.push(`${path}:${first}: ${last - first + 1} lines`);
      }
      ts.forEachChild(node, visit);
    };
    visit(syntax);
  }
  assertNone(found);
});

/** True for what is written down as it is: numbers, texts, patterns, and lists and records of them. */
function isLiteral(node: ts.Expression): boolean {
  if (ts.isLiteralExpression(node)) return true;
  if (ts.isPrefixUnaryExpression(node)) return isLiteral(node.operand);
  if (ts.isParenthesizedExpression(node) || ts.isAsExpression(node)) return isLiteral(node.expression);
  if (ts.isBinaryExpression(node)) return isLiteral(node.left) && isLiteral(node.right);
  if (ts.isArrayLiteralExpression(node)) return node.elements.length > 0 && node.elements.every(isLiteral);
  if (!ts.isObjectLiteralExpression(node) || node.properties.length === 0) return false;
  return node.properties.every((member) => ts.isPropertyAssignment(member) && isLiteral(member.initializer));
}

test("literal constants of a module are written in capitals", () => {
  const found: string[] = [];
  for (const { path, syntax } of sources) {
    for (const statement of syntax.statements) {
      if (!ts.isVariableStatement(statement)) continue;
      if (!(statement.declarationList.flags & ts.NodeFlags.Const)) continue;
      for (const { name, initializer } of statement.declarationList.declarations) {
        const text = name.getText(syntax);
        const plain = initializer !== undefined && isLiteral(initializer);
        if (plain && !/^[A-Z][A-Z0-9_]*$/.test(text)) found.push(`${path}: ${text}`);
      }
    }
  }
  assertNone(found);
});

/** Pairs of a path and, where one stands behind it, a name, as the pages write them: `` `path` `name` ``. */
function namedIn(page: string): { path: string; name: string | undefined }[] {
  const text = readFileSync(join(ROOT, page), "utf8").replace(/```[^]*?```/g, "");
  const pattern = /`((?:\.ci|[\w-]+)(?:\/[\w.-]+)*\/?)`(?: `([A-Za-z]\w*)`)?/g;
  return [...text.matchAll(pattern)]
    .map(([, path = "", name]) => ({ path: path.replace(/\/$/, ""), name }))
    .filter(({ path }) => (path.includes("/") && !path.startsWith("dist/")) || path.endsWith(".ts"));
}

test("ARCHITECTURE.md and CONTRIBUTING.md name files, folders and symbols that are there", () => {
  const found: string[] = [];
  for (const page of ["ARCHITECTURE.md", "CONTRIBUTING.md"]) {
    const named = namedIn(page);
    assert.ok(named.length > 10, `${page} names its places`);
    for (const { path, name } of named) {
      if (!existsSync(join(ROOT, path))) found.push(`${page}: there is no ${path}`);
      else if (name !== undefined && path.endsWith(".ts")) {
        const declared = new RegExp(`\\b(?:class|function\\*?|interface|const|type) ${name}\\b`);
        if (!declared.test(readFileSync(join(ROOT, path), "utf8"))) {
          found.push(`${page}: ${path} declares no ${name}`);
        }
      }
    }
  }
  assertNone(found);
});

test("source files that README and docs/ name are there", () => {
  const pages = [
    "README.md",
    ...readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md")).map((name) => `docs/${name}`),
  ];
  assertNone(pages.flatMap((page) => {
    const text = readFileSync(join(ROOT, page), "utf8");
    return [...text.matchAll(/(?<![\w/.-])((?:[\w-]+\/)+[\w-]+\.ts)\b/g)]
      .filter(([, path = ""]) => !existsSync(join(ROOT, path)))
      .map(([, path]) => `${page}: there is no ${path}`);
  }));
});

/** The rows of a Markdown text's tables, as cells; heads and rules are left out. */
function rowsOf(text: string): string[][] {
  const lines = text.split("\n");
  const isRule = (line: string | undefined) => /^\|[ |:-]+\|$/.test(line ?? "");
  return lines.filter((line, at) => line.startsWith("|") && !isRule(line) && !isRule(lines[at + 1]))
    .map((line) => line.slice(1, -1).split(/(?<!\\)\|/).map((cell) => cell.trim()));
}

test("each row of README's comparison names a test that is there, or measures it, and sources for others", () => {
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  const rows = rowsOf(/## Beside others\n([^]*?)\n## /.exec(readme)?.[1] ?? "");
  assert.ok(rows.length >= 10, "the table is there");
  assertNone(rows.flatMap(([subject, ...cells]) => {
    const checks = [...(cells.at(-1) ?? "").matchAll(/`([\w/]+\.ts)`/g)].map(([, path = ""]) => path);
    if (checks.length === 0) return [`${subject}: nothing checks it`];
    return checks.filter((path) => !existsSync(join(ROOT, path))).map((path) =>
      `${subject}: there is no ${path}`
    );
  }));
});

test("the messages that docs/troubleshooting.md quotes are worded as the program words them", () => {
  // A sentence that goes on in the next literal is one sentence.
  const said = sources.map(({ syntax }) => syntax.text.replaceAll(/["`] ?\+\s*["`]/g, "")).join("\n");
  const page = readFileSync(join(ROOT, "docs/troubleshooting.md"), "utf8");
  const quotes = rowsOf(page).flatMap(([seen = ""]) => [...seen.matchAll(/`([^`]+)`/g)])
    .map(([, quote = ""]) => quote).filter((quote) => quote.split(" ").length > 3);
  assert.ok(quotes.length > 20, "messages are quoted");
  assertNone(
    quotes.flatMap((quote) =>
      quote.split("…").map((piece) => piece.trim()).filter((piece) =>
        piece.length > 3 && !said.includes(piece)
      )
        .map((piece) => `nothing says "${piece}"`)
    ),
  );
});

test("each block of commands in the pages is run by tests/e2e/docs_test.ts, or says before it why not", () => {
  const docs = readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md"));
  const run = ["README.md", ...docs.map((name) => `docs/${name}`)];
  const command =
    /^(?:canopy|npx|curl|deno|bun|node|python3?|pip|ollama|docker|lm_eval|export|bash|tests\/|[A-Z_]+=)\S* /;
  assertNone([...run, "CONTRIBUTING.md", "examples/README.md", "tests/engines/README.md"].flatMap((page) => {
    const text = readFileSync(join(ROOT, page), "utf8");
    return [...text.matchAll(/(?:<!-- (Not run as it stands: .+) -->\n\n)?^```(\w*)\n(.*)\n[^]*?^```$/gm)]
      .flatMap(
        ([, why, language = "", first = ""]) => {
          const isRun = language === "sh" && run.includes(page);
          const isShell = ["sh", "bash", "shell"].includes(language) || command.test(first);
          return isRun || !isShell || why !== undefined ? [] : [`${page}: ${first}`];
        },
      );
  }));
});

test("pages link to pages, headings and files that are there", () => {
  const pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "examples/README.md"].concat(
    readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md")).map((name) => `docs/${name}`),
  );
  const slug = (heading: string) =>
    heading.toLowerCase().replaceAll(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-");
  const headingsOf = (path: string) =>
    [...readFileSync(join(ROOT, path), "utf8").matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
      slug(heading)
    );
  assertNone(
    pages.flatMap((page) =>
      [...readFileSync(join(ROOT, page), "utf8").matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link = ""]) => {
        if (/^https?:/.test(link)) return [];
        const [path = "", anchor] = link.split("#");
        const target = path === "" ? page : normalize(join(dirname(page), path));
        if (!existsSync(join(ROOT, target))) return [`${page}: there is no ${target}`];
        const known = anchor === undefined || !target.endsWith(".md") || headingsOf(target).includes(anchor);
        return known ? [] : [`${page}: ${target} has no heading #${anchor}`];
      })
    ),
  );
});
