import { html } from "htm/preact";
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { PageContext } from "./page_context.ts";
import { ApiError } from "../client/api.ts";

/** What went wrong; where a key is asked for, the form for it. */
export function problem(error: Error | undefined, page: PageContext): VNode | null {
  if (error === undefined) return null;
  return html`<div class="problem" role="alert">
    <p>${error.message}</p>
    ${error instanceof ApiError && error.asksForKey ? html`<${KeyForm} page=${page} />` : null}
  </div>`;
}

/** Asks for a key; it is kept until the tab is closed. */
export function KeyForm({ page }: { readonly page: PageContext }): VNode {
  const [key, setKey] = useState("");
  const onSubmit = (event: Event) => {
    event.preventDefault();
    page.setKey(key);
    setKey("");
  };
  return html`<form class="row" onSubmit=${onSubmit}>
    <label>Key <input type="password" autocomplete="off" value=${key} required
      onInput=${(event: InputEvent) => setKey(valueOf(event))} /></label>
    <button type="submit">Use</button>
    ${
    page.api.hasKey
      ? html`<button type="button" onClick=${() => page.setKey("")}>Forget the key</button>`
      : null
  }
  </form>`;
}

/** The value of the field that an event is about. */
export function valueOf(event: Event): string {
  const { target } = event;
  return target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement ||
      target instanceof HTMLSelectElement
    ? target.value
    : "";
}
