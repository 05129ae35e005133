import type { Random } from "../../base/random.ts";
import type { ServedModel } from "../services.ts";
import type { RelayRequest } from "./relay_types.ts";
import { REQUEST_ID_MEMBERS, requestIds, takesRequestId } from "./request_ids.ts";
import {
  applyEdits,
  type Edit,
  readTopLevel,
  setMember,
  stringMember,
  type TopLevel,
} from "./splice_json.ts";

/** The body of one attempt. */
export interface AttemptBody {
  readonly bytes: Uint8Array;
  /** Ids to abort when the client goes; empty where closing the connection is enough. */
  readonly rids: readonly string[];
}

/** What a request needs changed on its way, found in one scan of its body; without need, nothing is scanned. */
export class RequestPlan {
  /** The name to write into answers; undefined when the engine's own name is what the client asked for. */
  readonly askedModel: string | undefined;
  readonly #body: Uint8Array;
  readonly #top: TopLevel | undefined;
  readonly #modelEdits: readonly Edit[];
  readonly #needsIds: boolean;

  /** Throws 400 `invalid_json` when the body must be read and is not a JSON object. */
  constructor(model: ServedModel, request: RelayRequest) {
    const { config } = model;
    const hasBody = request.method === "POST" && request.body.length > 0;
    this.#body = request.body;
    this.#needsIds = hasBody && config.engine.startsWith("sglang") && takesRequestId(request.path);
    const mayRename = hasBody && config.model !== model.name;
    if (!this.#needsIds && !mayRename) {
      this.#modelEdits = [];
      return;
    }
    const top = readTopLevel(request.body, ["model", ...REQUEST_ID_MEMBERS]);
    const asked = stringMember(request.body, top, "model");
    const rename = mayRename && asked !== undefined && asked !== config.model;
    this.#top = top;
    this.askedModel = rename ? asked : undefined;
    this.#modelEdits = rename ? setMember(top, "model", JSON.stringify(config.model)) : [];
  }

  /** The body of the next attempt, with ids of its own. */
  attempt(random: Random): AttemptBody {
    if (this.#top === undefined) return { bytes: this.#body, rids: [] };
    const ids = this.#needsIds ? requestIds(this.#body, this.#top, random) : { rids: [], edits: [] };
    return { bytes: applyEdits(this.#body, [...this.#modelEdits, ...ids.edits]), rids: ids.rids };
  }
}
