import { pythonCsvRows } from "../python/python_csv.ts";
import {
  asciiText,
  codePoints,
  SPACE,
  splitWords,
  strip,
  stripMarks,
  withoutMarks,
} from "../python/python_text.ts";
import type { Checkers } from "./checker.ts";

const CAPITALS =
  `Reykjavik Helsinki Oslo Tallinn Stockholm Riga Moscow Copenhagen Vilnius Minsk Dublin Berlin Amsterdam Warsaw London
  Brussels Prague Luxembourg Paris Vienna Bratislava Budapest Vaduz Chisinau Bern Ljubljana Zagreb`.split(
    /\s+/u,
  );
const CITY_HEAD = ["ID", "Country", "City", "Year", "Count"];
const OPTION = new RegExp(`^[A-Ea-e][.|)][${SPACE}]*[\\p{L}\\p{N}_]+`, "u");
const QUESTION = new RegExp(`\\n*Question \\p{Nd}+[.|):;]?[${SPACE}]*`, "u");

/** Constraints of one question each. */
export const CUSTOM_CHECKERS: Checkers = {
  "custom:multiples": (text) => (text.match(/\p{Nd}+/gu) ?? []).join() === "14,21,28,35,42,49",
  "custom:mcq_count_length": (text) => {
    if (!text.startsWith("Question")) return false;
    const questions = text.split(QUESTION).map(strip).filter((question) => question !== "");
    const lengths = questions.map((question) => {
      const lines = question.split("\n").map(strip);
      const options = lines.filter((line) => OPTION.test(line)).length;
      const head = lines.slice(0, lines.findIndex((line) => OPTION.test(line)));
      return options === 5 ? codePoints(strip(head.join(" "))).length : NaN;
    });
    return lengths.length === 4 &&
      lengths.every((length, index) => index === 0 ? !Number.isNaN(length) : length > lengths[index - 1]!);
  },
  "custom:reverse_newline": (text) => {
    const lines = text.split("\n").map(stripMarks).filter((line) => line !== "");
    const start = lines.findIndex((line) => line.includes("Zimbabwe"));
    const countries = start < 0 ? [] : lines.slice(start).map(asciiText);
    return countries.length >= 52 &&
      countries.every((country, index) => index === 0 || country <= countries[index - 1]!);
  },
  "custom:word_reverse": (text, _given, sentences) => {
    const reversed = splitWords(withoutMarks(strip(text.toLowerCase()))).toReversed().join(" ");
    return reversed.includes("bald eagle") && sentences(reversed).includes(reversed);
  },
  "custom:character_reverse": (text) => text.toLowerCase().includes("elgae dlab"),
  "custom:sentence_alphabet": (text, _given, sentences) => {
    const firsts = sentences(text).map((sentence) => splitWords(sentence)[0]?.toLowerCase()[0]);
    return firsts.join() === Array.from("abcdefghijklmnopqrstuvwxyz").join();
  },
  "custom:european_capitals_sort": (text) =>
    asciiText(text).split(",").map(strip).filter((capital) => capital !== "").join() === CAPITALS.join(),
  "custom:csv_city": (text) => {
    const [head, ...rows] = pythonCsvRows(text, ",") ?? [];
    return head?.length === 5 && CITY_HEAD.every((name, index) => name === head[index]) &&
      rows.length === 7 &&
      rows.every((row) => row.length === 5);
  },
  "custom:csv_special_character": (text) => {
    const rows = hasHead(text, ["ProductID", "Category", "Brand", "Price", "Stock"], ",[ \\t]*")
      ? pythonCsvRows(text.replaceAll('"', '"""'), ",")
      : undefined;
    if (rows?.length !== 15) return false;
    const special = (cell: string) => new RegExp(`^"[^\\n]*[^\\p{L}\\p{N}_${SPACE}][^\\n]*"`, "u").test(cell);
    // Of the rows up to the first one with such a cell.
    const first = rows.findIndex((row, index) => index > 0 && row.some(special));
    return first > 0 && rows.slice(1, first + 1).every((row) => row.length === 5);
  },
  "custom:csv_quotes": (text) => {
    const rows = hasHead(text, ["StudentID", "Subject", "Grade", "Semester", "Score"], "\\t *")
      ? pythonCsvRows(text.replaceAll('"', '"""'), "\t")
      : undefined;
    return rows?.length === 4 &&
      rows.every((row) =>
        row.length === 5 && row.map(strip).every((cell) => cell.startsWith('"') && cell.endsWith('"'))
      );
  },
  "custom:date_format_list": (text) =>
    strip(text).split(",").every((date) => {
      const found = /^(\p{Nd}{4})-(\p{Nd}{2})-(\p{Nd}{2})$/u.exec(strip(date));
      if (found === null) return false;
      const [year, month, day] = found.slice(1).map(Number);
      const days = month === 2 ? 29 : [4, 6, 9, 11].includes(month!) ? 30 : month === 0 ? 99 : 31;
      return year! >= 1769 && year! <= 1821 && month! <= 12 && day! <= days;
    }),
};

/** True where the first line has these names, each with or without quotes. */
function hasHead(text: string, names: readonly string[], between: string): boolean {
  const cells = names.map((name) => `(?:${name}|"${name}")`);
  return new RegExp(`^${cells.join(between)}$`, "u").test(strip(text.split("\n")[0]!));
}
