/**
 * Frames a second that the page shows while 13 agents write at once, 200 tokens a second each, over loopback:
 *
 *     deno task bench:page [SECONDS]
 *
 * The engine and the router are in this process, Chromium is in its own. Prints frames a second, the longest time
 * between two frames, and the share of frames later than 1/30 s, while nobody writes and while all do.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import process from "node:process";
import type { Page } from "playwright-core";
import { z } from "zod";
import { SystemClock } from "../../base/clock.ts";
import { loadCheckedConfig } from "../../cfgs/load/load.ts";
import { chromiumPath, withChromium } from "./chromium.ts";
import { withRouter } from "./served_pages.ts";

const AGENTS = 13;
const TOKENS_PER_SECOND = 200;
const SECONDS = Number(process.argv[2] ?? 10);
/** A frame that comes later than this makes fewer than 30 a second. */
const LATE_MS = 1000 / 30;
const clock = new SystemClock();

/** An engine whose answers go on for as long as somebody listens. */
function startEngine(): Promise<Server> {
  const engine = createServer((request, response) => {
    if (request.method === "GET") {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ object: "list", data: [{ id: "writer", object: "model" }] }));
      return;
    }
    response.setHeader("content-type", "text/event-stream");
    request.resume();
    void write(response);
  });
  return new Promise((resolve) => engine.listen(0, "127.0.0.1", () => resolve(engine)));
}

/** As many tokens as are due, whatever the timers do. */
async function write(response: { write(text: string): boolean; readonly destroyed: boolean }): Promise<void> {
  const startMs = clock.now();
  for (let tokens = 0; !response.destroyed;) {
    const due = Math.floor((clock.now() - startMs) / 1000 * TOKENS_PER_SECOND);
    for (; tokens < due; tokens++) {
      const delta = { content: tokens % 20 === 19 ? "line.\n" : "word " };
      const chunk = {
        id: "c",
        object: "chat.completion.chunk",
        model: "writer",
        choices: [{ index: 0, delta }],
      };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    }
    await clock.sleep(1000 / TOKENS_PER_SECOND);
  }
}

/** Times between frames of a page, in ms, over so many ms; the program runs in the page. */
async function gapsOfFrames(page: Page, ms: number): Promise<number[]> {
  const gaps: unknown = await page.evaluate(`new Promise((resolve) => {
    const gaps = [], startMs = performance.now();
    let lastMs = startMs;
    const frame = (nowMs) => {
      gaps.push(nowMs - lastMs);
      lastMs = nowMs;
      if (nowMs - startMs >= ${ms}) resolve(gaps.slice(1));
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  })`);
  return z.array(z.number()).parse(gaps);
}

function say(view: string, gaps: readonly number[]): void {
  const total = gaps.reduce((sum, gap) => sum + gap, 0);
  const late = gaps.filter((gap) => gap > LATE_MS + 1).length / gaps.length;
  const rate = (1000 * gaps.length / total).toFixed(1);
  const longest = Math.max(...gaps).toFixed(0);
  process.stdout.write(
    `${view}: ${rate} frames/s, longest gap ${longest} ms, late ${(100 * late).toFixed(1)} %\n`,
  );
}

if (chromiumPath === undefined) {
  throw new Error("Chromium is not installed (Debian: chromium), nor named by CHROMIUM");
}
const engine = await startEngine();
const { port } = engine.address() as AddressInfo;
const agents = Array.from({ length: AGENTS - 1 }, () => ({ model: "writer" }));
const value = {
  server: { log_level: "fatal" },
  models: { writer: { model: "writer", engine: "openai", workers: [`http://127.0.0.1:${port}`] } },
  graphs: {
    wide: { layers: [{ agents: [...agents, { model: "writer" }] }, { agents: [{ model: "writer" }] }] },
  },
};
await withRouter(loadCheckedConfig({ path: "wide", env: {}, value }), async (url) => {
  await withChromium({ viewport: { width: 1280, height: 900 } }, async ({ page }) => {
    await page.goto(url);
    await page.waitForSelector("option", { state: "attached" });
    await page.selectOption('label:has-text("Model") select', "wide");
    await page.fill("textarea", "Write.");
    say("nobody writes", await gapsOfFrames(page, 2_000));
    await page.getByRole("button", { name: "Ask" }).click();
    await page.waitForSelector(`:nth-match(.agent.writing, ${AGENTS})`);
    say(`${AGENTS} agents write`, await gapsOfFrames(page, SECONDS * 1000));
    await page.getByRole("button", { name: "Stop" }).click();
  });
});
engine.closeAllConnections();
engine.close();
process.exit(0);
