import assert from "node:assert/strict";
import { test } from "node:test";
import "../loopback.ts";
import { chromiumPath, LOOKS, picture, seriousFindings, withChromium } from "./chromium.ts";
import { withLaboratory, withSpeaker } from "./served_pages.ts";
import { numberAt, textField } from "../../page/state/json_fields.ts";
import { readMetrics, sumOfSamples } from "../../page/state/metrics_text.ts";
import type { Page } from "playwright-core";

// The page in a real browser; pictures of it lie in dist/page afterwards.

const skip = chromiumPath === undefined ? "there is no Chromium: install it, or name one in CHROMIUM" : false;

const QUESTION = "Omar writes 13 lines a day for 9 days. For the next 4 days it is 5 lines each day. " +
  "What is the number of lines in the end?";

const IDLE = "button.primary:not([disabled])";

async function ask(page: Page, question: string): Promise<void> {
  await page.fill("#question", question);
  await page.click("button.primary");
}

async function factOf(page: Page, name: string): Promise<string> {
  return await page.locator("dl.facts div", { has: page.locator("dt", { hasText: new RegExp(`^${name}$`) }) })
    .locator("dd").first().innerText();
}

for (const [look, options] of Object.entries(LOOKS)) {
  test(
    `a run of real models is seen as it goes on, and each view can be used by all (${look})`,
    { skip },
    async () => {
      await withLaboratory({}, async (url) => {
        await withChromium({ ...options, bypassCSP: true }, async ({ page, errors, asked }) => {
          await page.goto(`${url}/`);
          await page.waitForSelector("option", { state: "attached" });
          await ask(page, QUESTION);
          // Successors read ahead while their precursors write.
          await page.waitForSelector(".agent.reading, .agent.writing");
          await picture(page, `playground-live-${look}`);
          await page.waitForSelector(IDLE);
          const id = await page.locator("h2 a").innerText();
          const record: unknown = await (await fetch(`${url}/v1/runs/${id}`)).json();
          await page.waitForSelector("text=done");
          assert.equal(await factOf(page, "Written"), String(numberAt(record, "usage", "completion_tokens")));
          assert.equal(
            (await factOf(page, "Prompt tokens")).replaceAll(",", ""),
            String(numberAt(record, "usage", "prompt_tokens")),
          );
          assert.equal(await page.locator(".answer").innerText(), textField(record, "agents", 12, "text"));
          assert.equal(await page.locator(".agent").count(), 13);
          await picture(page, `playground-${look}`);
          assert.deepEqual(await seriousFindings(page), []);
          for (const view of ["runs", `runs/${id}`, `compare/${id}/${id}`, "engines", "charts", "config"]) {
            await page.goto(`${url}/#/${view}`);
            await page.waitForSelector("main table, main .gantt, main dd[data-metric], main details");
            assert.deepEqual(await seriousFindings(page), [], view);
            assert.equal(
              await page.evaluate("document.documentElement.scrollWidth > innerWidth"),
              false,
              view,
            );
            await picture(page, `${view.replace(/\/.*/, "-of-one")}-${look}`);
          }
          assert.deepEqual(errors, []);
          assert.deepEqual(asked.filter((one) => !one.startsWith(`${url}/`) && !one.startsWith("data:")), []);
        });
      });
    },
  );
}

test("every sum on the page is that of /metrics", { skip }, async () => {
  await withLaboratory({}, async (url) => {
    await withChromium({}, async ({ page }) => {
      await page.goto(`${url}/`);
      await page.waitForSelector("option", { state: "attached" });
      await ask(page, QUESTION);
      await page.waitForSelector(IDLE);
      await page.goto(`${url}/#/charts`);
      await page.waitForSelector("dd[data-metric]:not(:text-is('0'))");
      const samples = readMetrics(await (await fetch(`${url}/metrics`)).text());
      const shown = await page.locator("dd[data-metric]").all();
      assert.ok(shown.length > 5);
      for (const one of shown) {
        const name = await one.getAttribute("data-metric") ?? "";
        const labels: Record<string, string> = JSON.parse(await one.getAttribute("data-labels") ?? "{}");
        const sum = sumOfSamples(samples, name, labels);
        assert.equal(
          Number((await one.innerText()).replaceAll(",", "")),
          sum,
          `${name} ${JSON.stringify(labels)}`,
        );
      }
    });
  });
});

test(
  "by keyboard alone a question is asked, an agent chosen, and its prompt and text read",
  { skip },
  async () => {
    await withLaboratory({}, async (url) => {
      await withChromium({}, async ({ page }) => {
        await page.goto(`${url}/`);
        await page.waitForSelector("option", { state: "attached" });
        await page.keyboard.press("Tab");
        assert.equal(await page.locator(":focus").innerText(), "To the content");
        await page.focus("#question");
        await page.keyboard.type(QUESTION);
        await page.keyboard.press("Control+Enter");
        await page.waitForSelector(IDLE);
        while (await page.locator(".agent:focus").count() === 0) await page.keyboard.press("Tab");
        await page.keyboard.press("Enter");
        assert.equal(await page.locator(".agent:focus").getAttribute("aria-pressed"), "true");
        assert.match(await page.locator(".detail").innerText(), /The answer is/);
        assert.equal(await page.locator(".detail pre[aria-label=Prompt]").innerText() === "–", false);
      });
    });
  },
);

test("one question is asked of two models beside each other, and stopped", { skip }, async () => {
  await withLaboratory({}, async (url) => {
    await withChromium(LOOKS["light"] ?? {}, async ({ page, errors }) => {
      await page.goto(`${url}/`);
      await page.waitForSelector("option", { state: "attached" });
      await page.selectOption("#also", "l");
      await ask(page, QUESTION);
      await page.waitForSelector(IDLE);
      const answers = await page.locator(".answer").allInnerTexts();
      assert.equal(answers.length, 2);
      assert.ok(answers.every((answer) => /The answer is/.test(answer)), answers.join());
      assert.equal(await page.locator(".agent").count(), 13, "an engine model has no tree");
      await picture(page, "beside");
      await page.selectOption("#also", "moa");
      await ask(page, QUESTION);
      await page.waitForSelector(".agent");
      await page.click("text=Stop");
      await page.waitForSelector(IDLE);
      await page.goto(`${url}/#/runs`);
      await page.waitForSelector("text=cancelled");
      assert.deepEqual(errors, []);
    });
  });
});

test("what models say executes nothing, wherever it is shown", { skip }, async () => {
  const hostile =
    '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 1"><svg onload="window.hacked=1">' +
    '<iframe srcdoc="<script>parent.hacked = 1</script>"></iframe>[link](javascript:window.hacked=1) ' +
    '<a href="javascript:window.hacked=1">a</a> \u001b[31mred\u001b[0m \u001b]8;;http://evil.example\u0007x ' +
    "\u202eright to left\u202c </pre></textarea>\u2066\u0000 ${window.hacked=1} &lt;b&gt;";
  await withSpeaker(hostile, async (url) => {
    // Its policy is off: that texts are texts is enough by itself.
    await withChromium({ bypassCSP: true }, async ({ page, errors, asked }) => {
      const harmless = async (where: string) => {
        assert.equal(await page.evaluate("window.hacked"), undefined, where);
        const made = "#page :is(script, img, iframe, a[href^=javascript], svg[onload], b b)";
        assert.equal(await page.locator(made).count(), 0, where);
      };
      await page.goto(`${url}/`);
      await page.waitForSelector("option", { state: "attached" });
      await ask(page, hostile);
      await page.waitForSelector(IDLE);
      await page.waitForSelector(".agent.failed");
      const answer = await page.locator(".answer").textContent() ?? "";
      assert.ok(answer.includes('<script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">'));
      for (const agent of await page.locator(".agent").all()) {
        await agent.click();
        await harmless("an agent");
      }
      await picture(page, "hostile");
      const id = await page.locator("h2 a").innerText();
      for (const view of ["runs", `runs/${id}`, `compare/${id}/${id}`, "engines", "config"]) {
        await page.goto(`${url}/#/${view}`);
        await page.waitForSelector("main table, main .gantt, main details");
        await harmless(view);
      }
      assert.deepEqual(errors, []);
      assert.deepEqual(asked.filter((one) => !one.startsWith(url) && !one.startsWith("data:")), []);
    });
  });
});

test("the page asks for a key where one is set, and keeps it in the tab only", { skip }, async () => {
  await withLaboratory({ api_keys: ["k1"], admin_key: "boss" }, async (url) => {
    await withChromium({}, async ({ page }) => {
      await page.goto(`${url}/#/engines`);
      const form = page.locator("[role=alert] form").first();
      await form.locator("input").fill("boss");
      await picture(page, "key");
      await form.locator("button[type=submit]").click();
      await page.waitForSelector("text=healthy");
      assert.equal(
        await page.evaluate("Object.values(localStorage).includes('boss') || document.cookie !== ''"),
        false,
      );
      await page.goto(`${url}/#/runs`);
      await page.waitForSelector("text=0 of 0 runs");
      const other = await page.context().newPage();
      await other.goto(`${url}/#/engines`);
      await other.waitForSelector("[role=alert] form");
    });
  });
});
