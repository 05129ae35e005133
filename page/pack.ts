import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const ROOT = join(HERE, "..");

/** The file that the router serves the page from. */
export const PACKED_PAGE = join(ROOT, "router/http/page/page_files.json");

/** Packages that are bundled with the page. */
const BUNDLED = ["preact", "htm", "eventsource-parser"];

/** The page as it is served: a hash of what it was made from, and its files by name. */
export interface PackedPage {
  readonly sources: string;
  readonly "index.html": string;
  readonly "page.css": string;
  readonly "page.js": string;
}

/** Hash of all that the page is made from: its files, and the versions of the packages in it. */
export function hashOfSources(): string {
  const hash = createHash("sha256");
  const names = readdirSync(HERE, { recursive: true, encoding: "utf8" }).map((name) =>
    name.replaceAll("\\", "/")
  );
  for (const name of names.filter((one) => /\.(ts|css|html)$/.test(one)).sort()) {
    hash.update(`${name}\n${readFileSync(join(HERE, name), "utf8")}\n`);
  }
  const manifest: unknown = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const { dependencies } = manifest as { dependencies: Readonly<Record<string, string>> };
  for (const name of BUNDLED) hash.update(`${name} ${dependencies[name]}\n`);
  return hash.digest("hex").slice(0, 32);
}

/** Makes the page from its sources. Runs under Bun only, whose bundler it is. */
export function packPage(): PackedPage {
  const build = ["build", join(HERE, "main.ts"), "--minify", "--target=browser"];
  return {
    sources: hashOfSources(),
    "index.html": readFileSync(join(HERE, "index.html"), "utf8"),
    "page.css": readFileSync(join(HERE, "page.css"), "utf8"),
    "page.js": execFileSync(process.execPath, build, { cwd: ROOT, encoding: "utf8" }),
  };
}

if (import.meta.main) writeFileSync(PACKED_PAGE, `${JSON.stringify(packPage(), null, 2)}\n`);
