/** A question that scripted engines can answer. */
export interface ScriptedQuestion {
  readonly id: string;
  readonly kind: "arithmetic" | "maths" | "reasoning" | "choice" | "open";
  /** Recognised verbatim (white space aside) anywhere in a prompt. */
  readonly question: string;
  /** The right answer as answers state it; for an open question the position that most people would defend. */
  readonly answer: string;
  /** Answers that a mistaken model gives, the most tempting first. */
  readonly mistakes: readonly string[];
  /** The steps of a sound solution. */
  readonly steps: readonly string[];
  /** A step that leads to each of the mistakes, in their order. */
  readonly slips: readonly string[];
  /** Difficulty, 0 (all models right) to 1 (even a large one often wrong). */
  readonly difficulty: number;
}

/** The questions that scripted engines know; for demonstrations and tests. */
export const QUESTIONS: readonly ScriptedQuestion[] = [
  {
    id: "eggs",
    kind: "arithmetic",
    question:
      "A farm's hens lay 16 eggs a day. The farmer eats three for breakfast every morning and bakes muffins for her friends with four. She sells the rest at the market for $2 per egg. How many dollars does she make every day at the market?",
    answer: "18",
    mistakes: ["26", "24"],
    steps: [
      "The hens lay 16 eggs a day.",
      "Breakfast takes 3 of them and the muffins take 4, together 7.",
      "That leaves 16 - 7 = 9 eggs to sell.",
      "At $2 per egg this makes 9 x 2 = 18 dollars.",
    ],
    slips: [
      "Only the breakfast eggs are gone, so 13 eggs are left, and 13 x 2 = 26 dollars.",
      "The muffins take 4 eggs, so 12 are left, and 12 x 2 = 24 dollars.",
    ],
    difficulty: 0.1,
  },
  {
    id: "trains",
    kind: "arithmetic",
    question:
      "Two trains start at the same time from towns 300 km apart and travel towards each other, one at 70 km/h and the other at 80 km/h. After how many hours do they meet?",
    answer: "2",
    mistakes: ["4", "3.75"],
    steps: [
      "The trains approach each other, so their speeds add up: 70 + 80 = 150 km/h.",
      "The distance between them is 300 km.",
      "They meet after 300 / 150 = 2 hours.",
    ],
    slips: [
      "The average speed is 75 km/h, so they need 300 / 75 = 4 hours.",
      "The faster train covers the way in 300 / 80 = 3.75 hours.",
    ],
    difficulty: 0.15,
  },
  {
    id: "discount",
    kind: "arithmetic",
    question:
      "A jacket costs $120. In a sale its price is reduced by 25%, and at the till another 10% is taken off the reduced price. How many dollars does the customer pay?",
    answer: "81",
    mistakes: ["78", "85"],
    steps: [
      "A quarter of 120 is 30, so the sale price is 120 - 30 = 90 dollars.",
      "Ten per cent of 90 is 9.",
      "The customer pays 90 - 9 = 81 dollars.",
    ],
    slips: [
      "The two discounts add up to 35%, and 35% of 120 is 42, so the price is 120 - 42 = 78 dollars.",
      "After the first discount the price is 95, and ten per cent less is about 85 dollars.",
    ],
    difficulty: 0.35,
  },
  {
    id: "bat-and-ball",
    kind: "arithmetic",
    question:
      "A bat and a ball cost $1.10 together. The bat costs $1.00 more than the ball. How many cents does the ball cost?",
    answer: "5",
    mistakes: ["10", "15"],
    steps: [
      "Let the ball cost x cents; then the bat costs x + 100 cents.",
      "Together they cost 2x + 100 = 110 cents.",
      "So 2x = 10 and x = 5.",
    ],
    slips: [
      "The bat costs a dollar, so what is left for the ball is 110 - 100 = 10 cents.",
      "Sharing the rest between both gives 15 cents for the ball.",
    ],
    difficulty: 0.5,
  },
  {
    id: "handshakes",
    kind: "maths",
    question:
      "At a party every guest shakes hands with every other guest exactly once. There are 45 handshakes in total. How many guests are there?",
    answer: "10",
    mistakes: ["9", "45"],
    steps: [
      "With n guests there are n(n - 1)/2 handshakes.",
      "n(n - 1)/2 = 45 means n(n - 1) = 90.",
      "90 = 10 x 9, so n = 10.",
    ],
    slips: [
      "Each guest shakes 9 hands, so there are 9 guests.",
      "Each handshake belongs to one guest, so there are 45 guests.",
    ],
    difficulty: 0.4,
  },
  {
    id: "remainder",
    kind: "maths",
    question: "What is the remainder when 7 to the power of 100 is divided by 5?",
    answer: "1",
    mistakes: ["2", "4"],
    steps: [
      "7 leaves the remainder 2 when divided by 5, so we look at the powers of 2.",
      "The powers of 2 leave the remainders 2, 4, 3, 1 and then repeat with period 4.",
      "100 is a multiple of 4, so the remainder is the last of the cycle, which is 1.",
    ],
    slips: [
      "7 leaves the remainder 2, and so does every power of it, which gives 2.",
      "100 is even, and the even powers leave the remainder 4.",
    ],
    difficulty: 0.55,
  },
  {
    id: "divisors",
    kind: "maths",
    question: "How many positive divisors does the number 360 have?",
    answer: "24",
    mistakes: ["18", "22"],
    steps: [
      "360 = 2^3 x 3^2 x 5.",
      "A divisor chooses an exponent of 2 from 0 to 3, of 3 from 0 to 2 and of 5 from 0 to 1.",
      "This gives 4 x 3 x 2 = 24 divisors.",
    ],
    slips: [
      "360 = 2^2 x 3^2 x 10, so there are 3 x 3 x 2 = 18 divisors.",
      "Without 1 and the number itself there are 22 divisors.",
    ],
    difficulty: 0.45,
  },
  {
    id: "lily-pads",
    kind: "reasoning",
    question:
      "A patch of lily pads on a lake doubles in size every day. It takes 48 days for the patch to cover the whole lake. On which day did it cover half of the lake?",
    answer: "47",
    mistakes: ["24", "46"],
    steps: [
      "The patch doubles every day.",
      "So one day before it covers the whole lake it covers half of it.",
      "That is day 48 - 1 = 47.",
    ],
    slips: [
      "Half of the lake takes half of the time, which is 48 / 2 = 24 days.",
      "It needs two more days from half to whole, so it was day 46.",
    ],
    difficulty: 0.3,
  },
  {
    id: "siblings",
    kind: "reasoning",
    question:
      "Sally is a girl who has 3 brothers. Each of her brothers has exactly 2 sisters. How many sisters does Sally have?",
    answer: "1",
    mistakes: ["2", "6"],
    steps: [
      "All the brothers share the same sisters.",
      "Each brother has 2 sisters, and Sally is one of them.",
      "So there is one other girl: Sally has 1 sister.",
    ],
    slips: [
      "The brothers have 2 sisters, so Sally has 2 sisters as well.",
      "Three brothers with 2 sisters each make 3 x 2 = 6 sisters.",
    ],
    difficulty: 0.6,
  },
  {
    id: "machines",
    kind: "reasoning",
    question:
      "If 5 machines take 5 minutes to make 5 widgets, how many minutes do 100 machines take to make 100 widgets?",
    answer: "5",
    mistakes: ["100", "20"],
    steps: [
      "One machine makes one widget in 5 minutes.",
      "100 machines work at the same time and make one widget each.",
      "So 100 widgets take 5 minutes.",
    ],
    slips: [
      "The numbers grow together, so 100 machines take 100 minutes for 100 widgets.",
      "Twenty times as many machines take 20 minutes.",
    ],
    difficulty: 0.4,
  },
  {
    id: "seasons",
    kind: "choice",
    question:
      "Why does the Earth have seasons? (A) Its distance from the Sun changes. (B) Its axis is tilted against its orbit. (C) The Sun's output changes over the year. (D) The Moon shades it.",
    answer: "B",
    mistakes: ["A", "C"],
    steps: [
      "If the distance decided, both halves of the Earth would have summer at the same time, which they do not.",
      "The axis is tilted by about 23 degrees, so each half leans towards the Sun for a part of the year.",
      "The half that leans towards the Sun gets steeper light and longer days, which is summer. This is option B.",
    ],
    slips: [
      "The orbit is an ellipse, and near the Sun it is warmer. This is option A.",
      "The Sun is stronger in summer. This is option C.",
    ],
    difficulty: 0.2,
  },
  {
    id: "language",
    kind: "open",
    question:
      "I have half an hour a day to learn a new language. Should I spend it on daily practice of everything, or on one skill per week? Give a recommendation with reasons.",
    answer: "daily mixed practice",
    mistakes: ["one skill per week", "whatever is more fun"],
    steps: [
      "Memory keeps best what it meets again after a short while, so words and sounds should come back every day.",
      "Half an hour is enough for ten minutes of review, ten of listening and ten of speaking or writing.",
      "A habit that looks the same every day is easier to keep than one that changes every week.",
      "A weekly focus can still set the theme of the day's exercises.",
    ],
    slips: [
      "Deep focus on one skill shows visible progress within a week, which motivates.",
      "Motivation decides more than the plan, so the plan should follow the mood.",
    ],
    difficulty: 0.3,
  },
];
