import type { JsonObject } from "../../../../base/json.ts";
import type { RunEvent } from "../../../moa/run/run.ts";

/** The beginning of every object of one answer. */
export interface AnswerHead {
  readonly id: string;
  /** Unix time in seconds. */
  readonly created: number;
  /** The name that the client asked for. */
  readonly model: string;
}

/** Fields of an engine's answers besides OpenAI's; a virtual model's answers have none. */
export interface EngineFields {
  ofPrompt(index: number): JsonObject;
  ofTokens(ids: readonly number[]): JsonObject;
  ofEnd(stopReason: string | number | undefined): JsonObject;
}

export const NO_ENGINE_FIELDS: EngineFields = {
  ofPrompt: () => ({}),
  ofTokens: () => ({}),
  ofEnd: () => ({}),
};

/** Turns the events of a request's runs into OpenAI's objects. Keeps what it has seen: one per request. */
export interface AnswerWriter {
  /** The chunks (`choices` of one each) that an event becomes in a stream; none for a token without text. */
  chunks(event: RunEvent): JsonObject[];
  /** The last chunk of a stream: no choices. */
  closing(fields: JsonObject): JsonObject;
  /** Takes an event in for `whole`. */
  add(event: RunEvent): void;
  /** The answer of a request without `stream`. */
  whole(fields: JsonObject): JsonObject;
}
