import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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

/** Longest wait for a run to be seen as it goes on; a short one may be over before a slow machine has drawn it. */
const SEEN_MS = 5_000;

/** Asks until somebody is seen at work; successors read ahead while their precursors write. */
async function askUntilSeen(page: Page): Promise<void> {
  while (true) {
    await ask(page, QUESTION);
    const working = page.waitForSelector(".agent.reading, .agent.writing", { timeout: SEEN_MS });
    if (await working.then(() => true, () => false)) return;
    await page.waitForSelector(IDLE);
  }
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
          await askUntilSeen(page);
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
          for (
            const view of [
              "runs",
              `runs/${id}`,
              `compare/${id}/${id}`,
              "engines",
              "charts",
              "reports",
              "config",
            ]
          ) {
            await page.goto(`${url}/#/${view}`);
            await page.waitForSelector(
              "main table, main .gantt, main dd[data-metric], main details, main p code",
            );
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

/** A record without texts of a run in which one agent was asked elsewhere and one was started twice. */
function recordWith(hostile: string): object {
  const agent = (id: string, more: object) => ({ id, model: "small", state: "done", reads: [], ...more });
  const counts = { calls: 1, prompt_tokens: 20, completion_tokens: 10, saved_tokens_estimate: 0 };
  const priced = (agent: string, cost: number | undefined) => ({ agent, model: "small", cost, ...counts });
  const times = { started_at_ms: 10, first_token_at_ms: 40, ended_at_ms: 400 };
  const hedge = { worker: hostile, started_at_ms: 90, ended_at_ms: 380, outcome: "won", tokens: 10 };
  return {
    id: "run_1",
    graph: "moa",
    state: "done",
    created: 1_795_387_410,
    duration_ms: 800,
    texts_kept: false,
    agents: [
      agent("l1.c1.a1", { ...times, fallback: { model: hostile, reason: "full" } }),
      agent("l1.c1.a2", { ...times, hedge }),
      agent("l1.c1.a3", { ...times, state: "cancelled", error: "Cluster l1.c1 closed without it" }),
      agent("l2.c1.a1", {
        started_at_ms: 410,
        first_token_at_ms: 450,
        ended_at_ms: 800,
        reads: ["l1.c1.a1", "l1.c1.a2", "l1.c1.a3"],
      }),
    ],
    usage: {
      ...counts,
      cost: 0.0012345,
      models: [{ model: "small", cost: 0.0012345, ...counts }],
      agents: [
        priced("l1.c1.a1", 0.0002),
        priced("l1.c1.a2", undefined),
        { ...priced("l1.c1.a3", 0.0002), saved_tokens_estimate: 12 },
        priced("l2.c1.a1", 0.0008345),
      ],
    },
    events: [
      { at_ms: 30, type: "agent_placed", agent: "l1.c1.a1", data: { worker: "w1" } },
      { at_ms: 400, type: "agent_cancelled", agent: "l1.c1.a3", data: { tokens: 10 } },
      { at_ms: 420, type: "agent_placed", agent: "l2.c1.a1", data: { worker: "w2" } },
    ],
  };
}

for (const [look, options] of Object.entries(LOOKS)) {
  test(
    `who was asked elsewhere or twice, what it cost and spared, and that texts were not kept is told (${look})`,
    { skip },
    async () => {
      const hostile = "<img src=x onerror='window.hacked=1'>";
      await withSpeaker("Yes.", async (url) => {
        await withChromium({ ...options, bypassCSP: true }, async ({ page, errors }) => {
          await page.route("**/v1/runs/run_1", (route) => route.fulfill({ json: recordWith(hostile) }));
          await page.goto(`${url}/#/runs/run_1`);
          await page.waitForSelector("section[aria-label=Tokens] td");
          const facts = await page.locator(".gantt ~ dl").innerText();
          assert.match(facts, /first token\s+50 ms/);
          assert.match(facts, /\(estimate\)\s+480 ms/);
          assert.equal(await factOf(page, "Cost"), "0.0012345");
          await page.click("text=By agent");
          assert.match(await page.locator("[aria-label='Tokens by agent']").innerText(), /0\.0008345/);
          await page.click("[data-agent='l1.c1.a1']");
          assert.match(
            await page.locator(".detail").innerText(),
            /Answered by <img src=x onerror='window.hacked=1'>, because all workers of small were full/,
          );
          for (const text of ["Text", "Prompt"]) {
            assert.match(
              await page.locator(`.detail pre[aria-label=${text}]`).innerText(),
              /server\.records\.texts/,
            );
          }
          await page.click("[data-agent='l1.c1.a2']");
          assert.match(
            await page.locator(".detail").innerText(),
            /Second attempt on <img .* from 90 ms to 380 ms/,
          );
          assert.deepEqual(await seriousFindings(page), []);
          assert.equal(await page.evaluate("document.documentElement.scrollWidth > innerWidth"), false);
          assert.equal(await page.evaluate("window.hacked"), undefined);
          await picture(page, `told-${look}`);
          assert.deepEqual(errors, []);
        });
      });
    },
  );
}

test(
  "the list asks the server for a state, a model and older runs, and keeps what is loaded",
  { skip },
  async () => {
    await withSpeaker("Yes.", async (url) => {
      await withChromium(LOOKS["phone"] ?? {}, async ({ page, asked, errors }) => {
        const all = Array.from({ length: 250 }, (_, at) => ({
          id: `run_${at}`,
          graph: at % 2 === 0 ? "even" : "odd",
          state: at % 5 === 0 ? "failed" : "done",
          created: 1_795_387_410 - at,
          usage: { calls: 1, cost: 0.5 },
        }));
        await page.route("**/v1/runs?*", (route) => {
          const { searchParams: query } = new URL(route.request().url());
          const wanted = all.filter(({ state, graph }) =>
            [state, null].includes(query.get("state")) && [graph, null].includes(query.get("graph"))
          );
          const from = wanted.findIndex(({ id }) => id === query.get("after")) + 1;
          const to = from + Number(query.get("limit"));
          return route.fulfill({ json: { data: wanted.slice(from, to), has_more: to < wanted.length } });
        });
        await page.goto(`${url}/#/runs`);
        await page.waitForSelector("text=100 of 100 runs; there are older ones");
        await page.focus("text=Load older runs");
        await page.keyboard.press("Enter");
        await page.waitForSelector("text=200 of 200 runs; there are older ones");
        await page.click("text=Load older runs");
        await page.waitForSelector("text=250 of 250 runs");
        assert.equal(await page.locator("text=Load older runs").count(), 0);
        const looks = asked.length;
        while (asked.length < looks + 2) await page.waitForRequest("**/v1/runs?*");
        assert.equal(await page.locator("tbody tr").count(), 250);
        await page.click("button:text-is('failed')");
        await page.waitForSelector("text=50 of 50 runs");
        await page.selectOption("#graph", "odd");
        await page.waitForSelector("text=25 of 25 runs");
        assert.ok(asked.some((one) => one.includes("state=failed") && one.includes("graph=odd")));
        assert.deepEqual(await seriousFindings(page), []);
        assert.equal(await page.evaluate("document.documentElement.scrollWidth > innerWidth"), false);
        await picture(page, "runs-older-phone");
        assert.deepEqual(errors, []);
      });
    });
  },
);

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

test(
  "where a key is set a report is saved, byte by byte, and no other key gets the list",
  { skip },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "canopy-page-"));
    const report = "<title>Exits</title><h1>Exits</h1>\u00e9\n";
    writeFileSync(join(folder, "exit.html"), report);
    try {
      await withLaboratory({ reports: folder, api_keys: ["k1"], admin_key: "boss" }, async (url) => {
        await withChromium({ ...LOOKS["phone"], acceptDownloads: true }, async ({ page }) => {
          await page.goto(`${url}/#/reports`);
          const form = page.locator("[role=alert] form").first();
          await form.locator("input").fill("k1");
          await form.locator("button[type=submit]").click();
          await page.waitForSelector("text=an API key is not enough");
          assert.equal(await page.locator("tbody button").count(), 0);
          await form.locator("input").fill("boss");
          await form.locator("button[type=submit]").click();
          const save = page.locator("tbody button", { hasText: "Save exit.html" });
          await save.waitFor();
          assert.equal(await page.locator("tbody a").count(), 0, "a link cannot send a key");
          await picture(page, "reports-key");
          for (const _ of [1, 2]) {
            const [download] = await Promise.all([page.waitForEvent("download"), save.click()]);
            assert.equal(download.suggestedFilename(), "exit.html");
            assert.equal(readFileSync(await download.path(), "utf8"), report);
          }
          rmSync(join(folder, "exit.html"));
          await save.click();
          await page.waitForSelector("[role=alert]:has-text('exit.html')");
          await picture(page, "reports-gone");
        });
      });
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);

test(
  "a choice among the runs stands in the address, so that a reload and a way back keep it",
  { skip },
  async () => {
    await withSpeaker("Yes.", async (url) => {
      await withChromium(LOOKS["light"] ?? {}, async ({ page, errors }) => {
        await page.goto(`${url}/`);
        await page.waitForSelector("option", { state: "attached" });
        await ask(page, "Is it?");
        await page.waitForSelector(IDLE);
        await page.goto(`${url}/#/runs`);
        await page.click("button:text-is('degraded')");
        await page.fill("input[type=search]", "tree");
        await page.selectOption("#graph", "<b>tree</b>");
        const chosen = "#/runs?filter=degraded&model=%3Cb%3Etree%3C%2Fb%3E&search=tree";
        assert.equal(await page.evaluate("location.hash"), chosen);
        const isChosen = async (where: string) => {
          await page.waitForSelector("button[aria-pressed=true]:text-is('degraded')");
          assert.equal(await page.inputValue("input[type=search]"), "tree", where);
          await page.waitForFunction("document.querySelector('#graph')?.value === '<b>tree</b>'");
          assert.equal(await page.evaluate("location.hash"), chosen, where);
        };
        await page.reload();
        await isChosen("after a reload");
        await page.click("tbody a");
        await page.waitForSelector(".gantt");
        await page.goBack();
        await isChosen("on the way back");
        await picture(page, "runs-chosen");
        await page.click("nav a:text-is('Runs')");
        await page.waitForSelector("button[aria-pressed=true]:text-is('all')");
        assert.equal(await page.inputValue("input[type=search]"), "");
        assert.deepEqual(errors, []);
      });
    });
  },
);

const worker = (id: string, model: string, worker_type: string, more: object = {}) => ({
  id,
  model,
  worker_type,
  engine: "sglang",
  url: `http://${id}:30000`,
  health: "healthy",
  breaker: "closed",
  in_flight: 3,
  served: 120,
  failures: 0,
  ...more,
});

for (const [look, options] of Object.entries(LOOKS)) {
  test(
    `pairs stand in one row, values say where they come from, reports are listed and opened (${look})`,
    { skip },
    async () => {
      const folder = mkdtempSync(join(tmpdir(), "canopy-page-"));
      const hostile = "<script>document.title = 'hacked'</script>";
      writeFileSync(join(folder, "exit.html"), `<title>Exits &lt;b&gt;</title><h1>Exits</h1>${hostile}`);
      try {
        await withLaboratory({ reports: folder }, async (url) => {
          await withChromium({ ...options, bypassCSP: true }, async ({ page, errors }) => {
            const workers = [
              worker("p1", "pd", "prefill"),
              worker("d1", "pd", "decode", { health: "unhealthy", last_error: "connection refused" }),
              worker("p2", "wide", "prefill"),
              worker("d2", "wide", "decode"),
              worker("d3", "wide", "decode"),
              worker("w1", "whole", "regular"),
            ];
            await page.route("**/workers", (route) => route.fulfill({ json: { workers } }));
            await page.goto(`${url}/#/engines`);
            await page.waitForSelector("text=any with any");
            assert.equal(await page.locator("[aria-label=Workers] tbody").count(), 3);
            assert.match(
              await page.locator("[aria-label=Workers] tbody").first().innerText(),
              /a pair[^]*p1[^]*d1/,
            );
            assert.deepEqual(await seriousFindings(page), []);
            await picture(page, `engines-pairs-${look}`);
            await page.goto(`${url}/#/config`);
            const rowOf = (path: string) =>
              page.locator("tr", { has: page.locator(`code:text-is("${path}")`) });
            await rowOf("server.reports").waitFor();
            assert.match(await rowOf("server.reports").innerText(), /--set server\.reports$/);
            assert.equal(await rowOf("server.page").count(), 0);
            await page.click("text=Defaults, too");
            await rowOf("server.page").waitFor();
            assert.match(await rowOf("server.page").innerText(), /true\s+default$/);
            await page.click("text=Defaults, too");
            assert.deepEqual(await seriousFindings(page), []);
            await picture(page, `config-origins-${look}`);
            await page.goto(`${url}/#/reports`);
            await page.waitForSelector("text=Exits <b>");
            assert.deepEqual(await seriousFindings(page), []);
            await picture(page, `reports-${look}`);
            assert.deepEqual(errors, []);
          });
          // With the policies of page and report.
          await withChromium(options, async ({ page }) => {
            await page.goto(`${url}/#/reports`);
            await page.waitForSelector("tbody a");
            const [opened] = await Promise.all([page.waitForEvent("popup"), page.click("tbody a")]);
            await opened.waitForSelector("h1");
            assert.equal(await opened.title(), "Exits <b>", "no script of a report runs");
          });
        });
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );
}
