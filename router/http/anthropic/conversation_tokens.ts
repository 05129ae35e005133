import { badRequest, CanopyError } from "../../../base/errors.ts";
import type { Json } from "../../../base/json.ts";
import { turnByTurn } from "../../../base/turns.ts";
import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";
import { renderInTurns } from "../../../ml/tokenizers/render_chat.ts";
import { tokenise } from "../../../ml/tokenizers/tokenise.ts";
import { refuseSprawl } from "../gate/body.ts";
import { fieldError } from "../gate/fields.ts";
import type { ReadRequest } from "../gate/read_request.ts";
import type { HttpServices } from "../gate/services.ts";
import { readMessages } from "../openai/chat_request.ts";
import { inClientsWords } from "../openai/translation.ts";
import { chatMessages } from "./blocks.ts";
import { chatTools, clientNames } from "./message_translation.ts";
import { countRequestSchema } from "./request_schema.ts";
import type { Graph } from "../../moa/graph/graph_types.ts";

/**
 * Counts the tokens of a conversation for a graph's root, the answers that it reads not among them. Throws 501 where the
 * root's tokenizer is not known, 400 for what is no text.
 */
export async function conversationTokens(
  { clock, models }: HttpServices,
  graph: Graph,
  { body, scope: { signal } }: ReadRequest,
): Promise<number> {
  await turnByTurn(clock, refuseSprawl(body), signal);
  const parsed = countRequestSchema.safeParse(body);
  if (!parsed.success) throw fieldError(parsed.error, body);
  const { messages, names } = chatMessages(body);
  const { model } = graph.root;
  const served = models.get(model);
  const tokenizer = served?.tokenizer;
  if (tokenizer === undefined || !tokenizer.hasChatTemplate) {
    throw new CanopyError(
      `Tokens for ${graph.name} cannot be counted: the router has no tokenizer with a chat template for ${model}, ` +
        `its root's model; set models.${model}.tokenizer`,
      { code: "not_implemented", status: 501, param: "model" },
    );
  }
  const templateArguments = {
    ...served?.config.chat_template_arguments,
    ...Object.fromEntries(chatTools(body)),
  };
  try {
    const chat = readMessages(messages).map(flatText);
    const text = await turnByTurn(clock, renderInTurns(chat, tokenizer, { templateArguments }), signal);
    return (await tokenise(text, tokenizer, { signal })).length;
  } catch (error) {
    throw inClientsWords(error, clientNames(names));
  }
}

/** The message with its parts as one text. Throws 400 for a part that is none: only its engine can count it. */
function flatText(message: ChatMessage, at: number): ChatMessage {
  const { content } = message;
  if (!Array.isArray(content)) return message;
  const texts = content.map((part: Json, index) => {
    if (typeof part === "object" && part !== null && "text" in part && typeof part["text"] === "string") {
      return part["text"];
    }
    const name = `messages[${at}].content[${index}]`;
    throw badRequest(
      name,
      `${name} is no text, and only texts are counted: leave it out`,
      "unsupported_content",
    );
  });
  return { ...message, content: texts.join("") };
}
