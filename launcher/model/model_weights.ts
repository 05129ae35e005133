import type { ModelFacts } from "./model_config.ts";

/**
 * Bytes of all weights, counted from the sizes in the model's config: embeddings, attention, feed-forward parts, the
 * vision tower. Norms and biases, below a thousandth, are left out. Within 1 % of what the Hub states for the
 * families in `tests/launcher/model/memory_test.ts`.
 */
export function weightBytesOf(facts: ModelFacts): number {
  const { hiddenSize, vocabSize, layers } = facts;
  const embeddings = hiddenSize * vocabSize * (facts.tiedEmbeddings ? 1 : 2);
  const attention = layers * attentionParameters(facts);
  const { experts, other } = feedForwardParameters(facts);
  const vision = facts.vision === undefined ? 0 : visionParameters(facts.vision, hiddenSize);
  const denseBits = facts.onlyExpertsQuantised ? 16 : facts.linearBits;
  // Embeddings and vision towers are left in 16 bits by all common quantisations.
  const bits = (embeddings + vision) * 16 + (attention + other) * denseBits + experts * facts.linearBits;
  return Math.round(bits / 8);
}

/** Bytes of keys and values of one token over all layers, with two bytes a number, or one with `fp8`. */
export function kvBytesPerTokenOf(facts: ModelFacts, cacheType: "auto" | "fp8" = "auto"): number {
  const bytes = cacheType === "fp8" ? 1 : 2;
  const perLayer = facts.latent === undefined
    ? 2 * facts.kvHeads * facts.headDim
    : facts.latent.kvRank + facts.latent.ropeDim;
  return facts.attentionLayers * perLayer * bytes;
}

function attentionParameters(facts: ModelFacts): number {
  const { hiddenSize, attentionHeads, kvHeads, headDim, latent } = facts;
  if (latent === undefined) return hiddenSize * headDim * (2 * attentionHeads + 2 * kvHeads);
  const queryWidth = attentionHeads * (latent.nopeDim + latent.ropeDim);
  const query = latent.queryRank === 0
    ? hiddenSize * queryWidth
    : hiddenSize * latent.queryRank + latent.queryRank * queryWidth;
  const keysAndValues = hiddenSize * (latent.kvRank + latent.ropeDim) +
    latent.kvRank * attentionHeads * (latent.nopeDim + latent.valueDim);
  return query + keysAndValues + attentionHeads * latent.valueDim * hiddenSize;
}

function feedForwardParameters(facts: ModelFacts): { experts: number; other: number } {
  const { hiddenSize, layers, ffnSize, experts } = facts;
  const block = (width: number) => 3 * hiddenSize * width;
  if (experts === undefined) return { experts: 0, other: layers * block(ffnSize) };
  const sparse = layers - experts.denseLayers;
  return {
    experts: sparse * experts.count * block(experts.size),
    other: sparse * (experts.shared * block(experts.size) + hiddenSize * experts.count) +
      experts.denseLayers * block(ffnSize),
  };
}

function visionParameters(vision: NonNullable<ModelFacts["vision"]>, textHiddenSize: number): number {
  const { depth, hiddenSize, ffnSize } = vision;
  const block = 4 * hiddenSize * hiddenSize + (vision.gated ? 3 : 2) * hiddenSize * ffnSize;
  const joined = hiddenSize * vision.patchTokens;
  const merger = joined * joined + joined * textHiddenSize;
  // Patches of 16 by 16 pixels, three colours, two frames.
  return depth * block + vision.mergers * merger + (vision.positions + 3 * 2 * 16 * 16) * hiddenSize;
}
