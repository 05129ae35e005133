/** Answers to one question by different writers: those of one topic are about the same, right or wrong. */
export interface Topic {
  readonly id: string;
  readonly answers: readonly string[];
}

/** Hand-written, in six languages. */
export const topics: readonly Topic[] = [
  {
    id: "eggs",
    answers: [
      "The hens lay 16 eggs a day. She eats three for breakfast and bakes muffins with four, so 16 - 7 = 9 eggs are left. At $2 each she makes 18 dollars at the market.",
      "First subtract what the farmer uses: 3 eggs in the morning plus 4 eggs for the muffins is 7. The remaining 9 eggs sell for 2 dollars each, which gives $18 per day.",
      "Only the breakfast eggs are gone, so there are 13 eggs to sell. With $2 per egg the farmer earns 26 dollars every day at the market.",
    ],
  },
  {
    id: "trains",
    answers: [
      "Both trains move towards each other, so their speeds add: 70 + 80 = 150 km/h. The towns are 300 km apart, hence they meet after 2 hours.",
      "The closing speed of the two trains is 150 kilometres per hour. Dividing the distance of 300 km by it gives two hours until they meet.",
      "On average a train drives 75 km/h. For a distance of 300 km it needs 300 / 75 = 4 hours, and that is when the trains meet.",
    ],
  },
  {
    id: "seasons",
    answers: [
      "The Earth has seasons because its axis is tilted against its orbit. The half that leans towards the Sun gets steeper light and longer days, which makes summer.",
      "It is the tilt of the axis, about 23 degrees. While one hemisphere points to the Sun it has summer, and the other one has winter at the same time.",
      "Seasons come from the changing distance to the Sun: the orbit of the Earth is an ellipse, and when we are near the Sun it is summer.",
    ],
  },
  {
    id: "language",
    answers: [
      "Practise every day a little of everything: vocabulary, listening, speaking. A daily habit is easy to keep, and memory needs to meet new words again after a short while.",
      "I would split the half hour into ten minutes of vocabulary review, ten minutes of listening and ten minutes of speaking the language. Daily repetition keeps words in memory.",
      "Spend each week on one skill only, such as listening or grammar. Deep focus shows visible progress in the new language and keeps your motivation up.",
    ],
  },
  {
    id: "sort",
    answers: [
      "Use quicksort: choose a pivot, partition the list into smaller and larger elements, and sort both parts recursively. On average this takes n log n comparisons.",
      "Merge sort divides the list into two halves, sorts each half recursively and merges the sorted halves. It always takes O(n log n) comparisons, unlike quicksort.",
      "A simple bubble sort compares neighbouring elements of the list and swaps them until everything is sorted. That takes n squared comparisons in the worst case.",
    ],
  },
  {
    id: "bread",
    answers: [
      "Mix flour, water, salt and yeast, knead the dough for ten minutes and let it rise for an hour. Then shape the loaf, let it rise again and bake it hot with steam.",
      "For a good bread the dough has to rest: after kneading flour, water, yeast and salt let it rise until it doubles, form a loaf and bake it in a hot oven.",
      "You can skip kneading. Stir flour with a lot of water and very little yeast, wait overnight, and bake the wet dough in a closed pot.",
    ],
  },
  {
    id: "interest",
    answers: [
      "The central bank raises interest rates to slow inflation: loans become expensive, firms invest less, people save more, and prices stop rising so fast.",
      "Higher interest rates make credit dearer. Households and firms borrow and spend less, demand falls, and with it inflation comes down.",
      "Interest rates have little to do with it; inflation falls when energy prices fall. Expensive loans only hurt firms that want to invest.",
    ],
  },
  {
    id: "french",
    answers: [
      "La photosynthèse transforme la lumière du soleil en énergie chimique : la plante absorbe du dioxyde de carbone et de l'eau et produit du glucose et de l'oxygène.",
      "Les plantes utilisent la lumière pour fabriquer du glucose à partir de l'eau et du dioxyde de carbone ; la photosynthèse libère de l'oxygène.",
      "La plante respire du dioxyde de carbone la nuit, et la lumière du soleil ne sert qu'à la réchauffer ; l'oxygène vient du sol.",
    ],
  },
  {
    id: "german",
    answers: [
      "Die Zugspitze ist mit 2962 Metern der höchste Berg Deutschlands. Sie liegt in den bayerischen Alpen an der Grenze zu Österreich.",
      "Deutschlands höchster Berg ist die Zugspitze in Bayern. Ihr Gipfel liegt 2962 Meter hoch direkt an der österreichischen Grenze.",
      "Der höchste Berg in Deutschland ist der Watzmann bei Berchtesgaden in den bayerischen Alpen, mit einer Höhe von 2713 Metern.",
    ],
  },
  {
    id: "chinese",
    answers: [
      "水在标准大气压下的沸点是一百摄氏度。海拔越高，气压越低，水的沸点也就越低，所以在高山上煮饭需要更长的时间。",
      "高山上的气压比较低，因此水的沸点降低，不到一百摄氏度就会沸腾，煮饭不容易熟。",
      "在高山上水的沸点更高，因为那里的气温很低，所以煮饭的时间要短一些。",
    ],
  },
  {
    id: "japanese",
    answers: [
      "日本で一番高い山は富士山です。高さは三千七百七十六メートルで、静岡県と山梨県の間にあります。",
      "富士山が日本で最も高い山です。静岡県と山梨県にまたがり、標高は三千七百七十六メートルです。",
      "日本の一番高い山は北岳だと思います。標高は三千百九十三メートルで、山梨県にあります。",
    ],
  },
  {
    id: "russian",
    answers: [
      "Луна вращается вокруг Земли примерно за двадцать семь суток и всегда повернута к нам одной стороной, потому что её вращение синхронизировано с обращением.",
      "Мы видим только одну сторону Луны: период её вращения вокруг оси равен периоду обращения вокруг Земли, около двадцати семи суток.",
      "Луна совсем не вращается вокруг своей оси, поэтому с Земли видна только одна её сторона.",
    ],
  },
];

/** What no good answer says. */
export const offTopic: readonly string[] = [
  "I'm sorry, but I can't help with that request.",
  "Once upon a time there was a little dragon who lived in a cave and was afraid of the dark.",
  '{"error": {"message": "The server is overloaded", "type": "server_error", "code": 503}}',
  "aaaa aaaa aaaa aaaa aaaa aaaa aaaa aaaa aaaa aaaa aaaa aaaa",
];
