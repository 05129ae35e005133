import type { ModelConfig } from "../../cfgs/schema/config.ts";
import type { ChatMessage } from "../../ml/tokenizers/chat_message.ts";
import type { ModelTokenizer } from "../../ml/tokenizers/model_tokenizer.ts";
import type { Engine } from "../engines/engine.ts";
import type { ManagedPool, Pool } from "../pool/pool.ts";

/** Changes to the workers of a running model. */
export type Membership = Pick<ManagedPool, "addWorker" | "removeWorker" | "setDraining" | "setDown">;

/** One entry of the config's `models`, ready for use. */
export interface ServedModel {
  /** Its key in the config; the name under which it is listed. */
  readonly name: string;
  readonly config: ModelConfig;
  readonly engine: Engine;
  readonly pool: Pool;
  readonly membership: Membership;
  /** Undefined when the engine applies its own chat template, and while it is still being loaded; then it stays. */
  readonly tokenizer: ModelTokenizer | undefined;
  /** The reason why there is no tokenizer although one is wanted, as the end of a sentence. */
  readonly tokenizerProblem?: string | undefined;
  /**
   * Where there is no tokenizer, but a worker that tokenises when it is asked: the tokens of a conversation. Rejects
   * when no worker tells.
   */
  readonly askTokens?: ((messages: readonly ChatMessage[]) => Promise<readonly number[]>) | undefined;
}
