import { existsSync, mkdirSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import axe from "axe-core";
import { HANG_MS } from "../until.ts";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

/** Debian's Chromium, or the one that `CHROMIUM` names; undefined where there is none. */
export const chromiumPath = [process.env["CHROMIUM"], "/usr/bin/chromium"].find((path) =>
  path !== undefined && existsSync(path)
);

/** Pictures of the last run of these tests, to be looked at. */
const PICTURES = fileURLToPath(new URL("../../dist/page", import.meta.url));

/** Looks of the page that each view is seen in. */
export const LOOKS: Readonly<Record<string, BrowserContextOptions>> = {
  light: { viewport: { width: 1280, height: 900 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 900 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: "light" },
};

/** A page of a browser of its own, and what went wrong in it. */
export interface OpenPage {
  readonly page: Page;
  /** Errors of scripts and of the console. */
  readonly errors: string[];
  /** Addresses that it has asked for. */
  readonly asked: string[];
}

/** Opens Chromium for as long as `use` takes. Its policy is passed by where tests put scripts of their own in. */
export async function withChromium(
  options: BrowserContextOptions,
  use: (open: OpenPage) => Promise<void>,
): Promise<void> {
  const browser: Browser = await chromium.launch({
    executablePath: chromiumPath ?? "",
    args: ["--no-sandbox"],
  });
  try {
    const page = await (await browser.newContext(options)).newPage();
    page.setDefaultTimeout(HANG_MS);
    const errors: string[] = [];
    const asked: string[] = [];
    page.on("pageerror", (error) => void errors.push(error.message));
    page.on("console", (line) => line.type() === "error" && errors.push(line.text()));
    page.on("dialog", (dialog) => void errors.push(`dialog: ${dialog.message()}`));
    page.on("request", (request) => void asked.push(request.url()));
    await use({ page, errors, asked });
  } finally {
    await browser.close();
  }
}

/** Keeps a picture of the whole page. */
export async function picture(page: Page, name: string): Promise<void> {
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: `${PICTURES}/${name}.png`, fullPage: true });
}

/** What keeps somebody from using the page as it is: axe's findings that are serious or worse. */
export async function seriousFindings(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const found: unknown = await page.evaluate("axe.run()");
  const { violations } = found as axe.AxeResults;
  return violations.filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes[0]?.html ?? ""}`);
}
