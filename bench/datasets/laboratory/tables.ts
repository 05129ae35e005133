import { type Draft, fill, several, type Wording } from "./draft.ts";
import { PEOPLE, THINGS } from "./vocabulary.ts";

const LETTERS = "ABCD";
const INTROS: readonly Wording[] = ["Who has how much:", "This is what they have:", "Look at the table:"];

/** A table of people and things, and the column that is asked for. */
interface Table {
  readonly people: readonly string[];
  readonly columns: readonly string[];
  /** By person, then by column. */
  readonly cells: readonly (readonly number[])[];
  readonly asked: number;
}

/** Options as texts, and the right one of them. */
interface Options {
  readonly texts: readonly string[];
  readonly right: string;
}

const MOST: readonly Wording[] = ["Who has the most {things}?", "Who has more {things} than all others?"];
const LEAST: readonly Wording[] = ["Who has the fewest {things}?", "Who has fewer {things} than all others?"];
const EXACTLY: readonly Wording[] = ["Who has exactly {n} {things}?", "Whose number of {things} is {n}?"];
const SECOND: readonly Wording[] = ["Who has the second most {things}?", "Who comes second in {things}?"];
const GREATEST_TOTAL: readonly Wording[] = ["Who has the most in all?", "Whose total is the largest?"];
const SUM: readonly Wording[] = [
  "How many {things} do {first} and {last} have together?",
  "What is the sum of the {things} of {first} and {last}?",
];
const DIFFERENCE: readonly Wording[] = [
  "How many more {things} does {first} have than {last}?",
  "By how many {things} is {first} ahead of {last}?",
];

/** A table and a question with four options; returns the letter of the right one. */
export function tellTable(draft: Draft): string {
  const { random, level } = draft;
  const people = several(random, PEOPLE, 4).map(({ name }) => name);
  const columns = several(random, THINGS, level === 1 ? 2 : draft.choose([2, 3]));
  const cells = people.map(() => columns.map(() => 0));
  for (let column = 0; column < columns.length; column++) {
    const values = new Set<number>();
    while (values.size < people.length) values.add(2 + random.int(level < 3 ? 48 : 97));
    [...values].forEach((value, row) => cells[row]![column] = draft.given(value));
  }
  const table: Table = { people, columns, cells, asked: random.int(columns.length) };
  const rows = people.map((name, row) =>
    `${name}: ${columns.map((thing, at) => `${cells[row]![at]} ${thing}`).join(", ")}`
  );
  draft.say(`${draft.choose(INTROS)}\n${rows.join("\n")}\n`);
  const options = ask(draft, table);
  const texts = several(random, options.texts, options.texts.length);
  draft.say(`\n${texts.map((text, at) => `${LETTERS[at]}) ${text}`).join("\n")}`);
  const letter = LETTERS[texts.indexOf(options.right)]!;
  draft.explain(`${options.right} is option ${letter}.`);
  return letter;
}

function ask(draft: Draft, table: Table): Options {
  const aim = draft.choose(
    ([["exactly", "most"], ["most", "least", "difference"], ["second", "sum", "difference"], [
      "total",
      "sum",
    ]] as const)[
      draft.level - 1
    ]!,
  );
  draft.mark(aim);
  if (aim === "sum" || aim === "difference") return askNumber(draft, table, aim);
  if (aim === "total") return askTotal(draft, table);
  return askPerson(draft, table, aim);
}

function askPerson(
  draft: Draft,
  { people, columns, cells, asked }: Table,
  aim: "exactly" | "most" | "least" | "second",
): Options {
  const things = columns[asked]!;
  const values = cells.map((row) => row[asked]!);
  const sorted = [...values].sort((a, b) => b - a);
  const value = aim === "exactly"
    ? draft.random.pick(values)
    : sorted[aim === "most" ? 0 : aim === "second" ? 1 : 3]!;
  const right = people[values.indexOf(value)]!;
  draft.say(
    fill(draft.choose({ exactly: EXACTLY, most: MOST, least: LEAST, second: SECOND }[aim]), {
      things,
      n: value,
    }),
  );
  draft.explain(`${things}: ${people.map((name, row) => `${name} ${values[row]}`).join(", ")}.`);
  if (aim === "second") draft.explain(`In order: ${sorted.join(", ")}.`);
  draft.explain(`${value} has ${right}.`);
  return { texts: people, right };
}

function askTotal(draft: Draft, { people, cells }: Table): Options {
  draft.say(draft.choose(GREATEST_TOTAL));
  const totals = people.map((name, row) => {
    let sum = cells[row]![0]!;
    const sums = cells[row]!.slice(1).map((value) => {
      const done = draft.calculate(sum, "+", value);
      sum = done.value;
      return done.text;
    });
    draft.explain(`${name}: ${sums.join(", ")}.`);
    return sum;
  });
  const most = Math.max(...totals);
  if (totals.filter((sum) => sum === most).length > 1) draft.valid = false;
  const right = people[totals.indexOf(most)]!;
  draft.explain(`${most} has ${right}.`);
  return { texts: people, right };
}

function askNumber(
  draft: Draft,
  { people, columns, cells, asked }: Table,
  aim: "sum" | "difference",
): Options {
  const pair = several(draft.random, [0, 1, 2, 3], 2).sort((a, b) => cells[b]![asked]! - cells[a]![asked]!);
  const [high, low] = pair.map((row) => cells[row]![asked]!);
  const words = { things: columns[asked]!, first: people[pair[0]!]!, last: people[pair[1]!]! };
  draft.say(fill(draft.choose(aim === "sum" ? SUM : DIFFERENCE), words));
  const done = draft.calculate(high!, aim === "sum" ? "+" : "-", low!);
  draft.explain(`${words.first}: ${high}, ${words.last}: ${low}. ${done.text}.`);
  const texts = new Set([String(done.value)]);
  const nearby = [1, 2, 10, 9, 11, -1, -2, -10].map((by) => done.value + by).filter((value) => value > 0);
  while (texts.size < LETTERS.length) texts.add(String(draft.random.pick(nearby)));
  return { texts: [...texts], right: String(done.value) };
}
