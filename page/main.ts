import { html } from "htm/preact";
import { render } from "preact";
import { App } from "./views/app.ts";

const root = document.getElementById("page");
if (root !== null) render(html`<${App} />`, root);
