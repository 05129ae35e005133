import type { Api } from "../client/api.ts";

/** What views share. */
export interface PageContext {
  readonly api: Api;
  /** Changes with the key: what was refused is asked for again. */
  readonly keyCount: number;
  readonly setKey: (key: string) => void;
}
