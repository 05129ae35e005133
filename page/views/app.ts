import { html } from "htm/preact";
import type { VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { ChartsPage } from "./charts_page.ts";
import { ConfigPage } from "./config_page.ts";
import { EnginesPage } from "./engines_page.ts";
import type { PageContext } from "./page_context.ts";
import { PlaygroundPage } from "./playground_page.ts";
import { KeyForm } from "./problem.ts";
import { ReportsPage } from "./reports_page.ts";
import { ComparePage, RunPage } from "./run/run_page.ts";
import { RunsPage } from "./runs_page.ts";
import { Api } from "../client/api.ts";
import { hashOf, type PageAddress, readAddress, type RunChoice } from "../state/address.ts";

const VIEWS = [
  ["playground", "Playground"],
  ["runs", "Runs"],
  ["engines", "Engines"],
  ["charts", "Charts"],
  ["reports", "Reports"],
  ["config", "Config"],
] as const;

const THEMES = ["auto", "light", "dark"] as const;

/** The whole page: its head, and the view that its address names. */
export function App(): VNode {
  const [address, setAddress] = useState(() => readAddress(location.hash));
  const [keyCount, setKeyCount] = useState(0);
  const [asksKey, setAsksKey] = useState(false);
  const api = useMemo(() => new Api(sessionStorage, (path, request) => fetch(path, request)), []);
  useEffect(() => {
    const onChange = () => setAddress(readAddress(location.hash));
    addEventListener("hashchange", onChange);
    return () => removeEventListener("hashchange", onChange);
  }, []);
  const page: PageContext = {
    api,
    keyCount,
    setKey: (key) => {
      api.setKey(key);
      setKeyCount((count) => count + 1);
      setAsksKey(false);
    },
  };
  // A change of the choice is no step to go back from.
  const choose = (chosen: RunChoice) => {
    const next = { view: "runs", ...chosen } as const;
    history.replaceState(null, "", hashOf(next));
    setAddress(next);
  };
  return html`
    <a class="skip" href="#main">To the content</a>
    <header>
      <a class="name" href="#/playground">Canopy</a>
      <nav aria-label="Views">
        ${VIEWS.map(([view, title]) =>
          html`<a href=${hashOf({ view })} aria-current=${
            isIn(address, view) ? "page" : undefined
          }>${title}</a>`
        )}
      </nav>
      <span class="tools">
        <button type="button" aria-expanded=${asksKey} onClick=${() => setAsksKey(!asksKey)}>Key</button>
        <${ThemeButton} />
      </span>
    </header>
    ${asksKey
      ? html`
        <div class="panel">
          <${KeyForm} page=${page} />
        </div>
      `
      : null}
    <main id="main" tabindex="-1">${viewOf(address, page, choose)}</main>
  `;
}

function isIn(address: PageAddress, view: string): boolean {
  return address.view === view || view === "runs" && (address.view === "run" || address.view === "compare");
}

function viewOf(address: PageAddress, page: PageContext, choose: (chosen: RunChoice) => void): VNode {
  // The list of runs stays while the choice among them changes.
  const shown = address.view === "runs" ? "runs" : JSON.stringify(address);
  const key = `${shown} ${page.keyCount}`;
  switch (address.view) {
    case "engines":
      return html`<${EnginesPage} key=${key} page=${page} />`;
    case "runs":
      return html`<${RunsPage} key=${key} page=${page} chosen=${address} choose=${choose} />`;
    case "run":
      return html`<${RunPage} key=${key} page=${page} id=${address.id} />`;
    case "compare":
      return html`<${ComparePage} key=${key} page=${page} ids=${address.ids} />`;
    case "charts":
      return html`<${ChartsPage} key=${key} page=${page} />`;
    case "reports":
      return html`<${ReportsPage} key=${key} page=${page} />`;
    case "config":
      return html`<${ConfigPage} key=${key} page=${page} />`;
    default:
      return html`<${PlaygroundPage} key=${key} page=${page} />`;
  }
}

/** Light, dark, or as the system has it. */
function ThemeButton(): VNode {
  const [theme, setTheme] = useState<string>(() => localStorage.getItem("canopy-theme") ?? "auto");
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    localStorage.setItem("canopy-theme", theme);
  }, [theme]);
  const next = THEMES[(THEMES.findIndex((one) => one === theme) + 1) % THEMES.length] ?? "auto";
  return html`
    <button type="button" onClick=${() => setTheme(next)}
      aria-label=${`Colours: ${theme}; change to ${next}`}>${theme}</button>
  `;
}
