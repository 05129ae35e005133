import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import {
  colorsOf,
  definitions,
  fit,
  LiveRegion,
  oneLine,
  paragraphs,
  printable,
  table,
  truncate,
  widthOf,
  wrap,
} from "../../../cli/kit/terminal.ts";
import { FakeOutput } from "../fake_io.ts";

test("colours are used on a terminal only, and not with NO_COLOR or a dumb terminal", () => {
  const terminal = new FakeOutput({ terminal: true });
  assert.equal(colorsOf(terminal, {}).red("x"), "\x1b[31mx\x1b[39m");
  assert.equal(colorsOf(terminal, { NO_COLOR: "" }).red("x"), "\x1b[31mx\x1b[39m");
  assert.equal(colorsOf(terminal, { NO_COLOR: "1" }).red("x"), "x");
  assert.equal(colorsOf(terminal, { TERM: "dumb" }).red("x"), "x");
  assert.equal(colorsOf(new FakeOutput(), { FORCE_COLOR: "1" }).red("x"), "x");
});

test("texts from outside cannot move the cursor or change the colour", () => {
  assert.equal(printable("a\x1b[2Jb\x07\x08c\x1b]0;title\x07\r\nd\te\x1b"), "abc\nd\te");
  assert.equal(oneLine("  a\n\n b\tc\x1b[31m "), "a b c");
});

test("widths count East Asian characters and emoji as two, marks and colours as none", () => {
  assert.equal(widthOf("abc"), 3);
  assert.equal(widthOf("日本"), 4);
  assert.equal(widthOf("🌳"), 2);
  assert.equal(widthOf("e\u0301"), 1);
  assert.equal(widthOf("\x1b[31mred\x1b[39m"), 3);
  assert.equal(widthOf("ｶﾀｶﾅ カタカナ 한국어"), 4 + 1 + 8 + 1 + 6);
  // Emoji of several characters are one: a family, a thumb with a colour, a flag, a heart with a selector.
  for (const emoji of ["👨‍👩‍👧", "👍🏽", "🇩🇪", "❤️"]) assert.equal(widthOf(emoji), 2, emoji);
  // The marks of the tree of agents.
  assert.equal(widthOf("○◔◑●✗├└│─…"), 10);
});

test("truncate and fit keep to the width they are given", () => {
  assert.equal(truncate("abcdef", 6), "abcdef");
  assert.equal(truncate("abcdef", 5), "abcd…");
  assert.equal(truncate("日本語", 4), "日…");
  assert.equal(truncate("日本語", 4, "start"), "…語");
  assert.equal(truncate("one 👨‍👩‍👧 two", 5), "one …");
  assert.equal(truncate("one 👨‍👩‍👧 two", 7), "one 👨‍👩‍👧…");
  assert.equal(truncate("\x1b[31mabcdef\x1b[39m", 4), "\x1b[31mabc…\x1b[39m");
  assert.equal(truncate("abc", 0), "");
  assert.equal(fit("\x1b[31m日本\x1b[39m", 6), "\x1b[31m日本\x1b[39m  ");
  assert.equal(fit("ab", 4), "ab  ");
  assert.equal(fit("ab", 4, "right"), "  ab");
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.integer({ min: 0, max: 40 }), (text, columns) => {
      const plain = oneLine(text);
      assert.ok(widthOf(truncate(plain, columns)) <= columns);
      assert.equal(widthOf(fit(plain, columns)), columns);
    }),
  );
});

test("wrap breaks at spaces and keeps the text's own lines", () => {
  assert.deepEqual(wrap("one two three\n\nfour", 8), ["one two", "three", "", "four"]);
  assert.deepEqual(wrap("unbreakable", 4), ["unbreakable"]);
  assert.deepEqual(wrap("日本語 中文 한국", 7), ["日本語", "中文", "한국"]);
  assert.deepEqual(wrap("👨‍👩‍👧 👍🏽 🇩🇪", 5), ["👨‍👩‍👧 👍🏽", "🇩🇪"]);
  assert.deepEqual(wrap("\x1b[31mone two\x1b[39m", 4), ["\x1b[31mone\x1b[39m", "\x1b[31mtwo\x1b[39m"]);
});

test("definitions stand in two columns, and go on below their text where a line is full", () => {
  const rows = [["-h", "Show this help"], ["--all", "Show it all, and more"]] as const;
  assert.equal(definitions(rows), "  -h     Show this help\n  --all  Show it all, and more");
  const narrow = definitions(rows, 30).split("\n");
  assert.deepEqual(narrow, ["  -h     Show this help", "  --all  Show it all, and more"]);
  assert.deepEqual(definitions([["--all", "Show all of it, and then some"]], 30).split("\n"), [
    "  --all  Show all of it, and",
    "         then some",
  ]);
});

test("lines that stand alone and are too long go on further right: commands behind a backslash, meanings below themselves", () => {
  assert.equal(
    paragraphs("  canopy serve canopy.jsonc --port 9000", 36),
    "  canopy serve canopy.jsonc \\\n      --port 9000",
  );
  assert.equal(paragraphs("  paper   what it says of it", 20), "  paper   what it\n          says of it");
  assert.equal(
    paragraphs("  canopy serve moa-9-3-1      (a preset)", 30),
    "  canopy serve moa-9-3-1\n      (a preset)",
  );
});

test("paragraphs are broken anew, examples stay as they are", () => {
  const text = "One two\nthree four.\n\nExamples:\n  canopy serve canopy.jsonc --port 9000";
  assert.equal(paragraphs(text), text);
  assert.equal(
    paragraphs(text, 11).split("\n").slice(0, 4).join("\n"),
    "One two\nthree four.\n\nExamples:",
  );
  assert.equal(paragraphs("One two\nthree.", 40), "One two three.");
});

test("a table aligns its columns", () => {
  assert.deepEqual(table(["", "ms"], [["木", "1"], ["🌳🌳", "22"]], ["left", "right"]), [
    "      ms",
    "────  ──",
    "木     1",
    "🌳🌳  22",
  ]);
  assert.deepEqual(
    table(["mode", "ms"], [["tree", "12"], ["all-to-all", "1,024"]], ["left", "right"]),
    [
      "mode           ms",
      "──────────  ─────",
      "tree           12",
      "all-to-all  1,024",
    ],
  );
});

test("a live region is drawn over and over on a terminal", () => {
  const output = new FakeOutput({ terminal: true, rows: 4 });
  const region = new LiveRegion(output);
  region.draw(["a", "b"]);
  region.draw(["c"]);
  region.print("done");
  region.draw(["1", "2", "3", "4", "5"]);
  region.clear();
  region.clear();
  assert.equal(
    output.text,
    "a\nb\n" + "\x1b[2A\r\x1b[Jc\n" + "\x1b[1A\r\x1b[Jdone\n" + "1\n2\n3\n" + "\x1b[3A\r\x1b[J",
  );
});

test("no line of a live region runs over the edge of a narrow terminal, from which it could not be taken away", () => {
  const output = new FakeOutput({ terminal: true, columns: 10 });
  new LiveRegion(output).draw(["0123456789", "\x1b[31m0123456789abc\x1b[39m"]);
  assert.equal(output.text, "0123456789\n\x1b[31m012345678…\x1b[39m\n");
});

test("a live region prints plain lines elsewhere", () => {
  const output = new FakeOutput();
  const region = new LiveRegion(output);
  region.draw(["a", "b"]);
  region.print("done");
  region.clear();
  assert.equal(region.live, false);
  assert.equal(output.text, "done\n");
});

test("a table that is wider than the terminal breaks its widest columns, cell by cell", () => {
  const rows = [["a", "one two three four", "12"], ["木木", "five", "3"]];
  const wide = table(["name", "text", "n"], rows, ["left", "left", "right"]);
  assert.deepEqual(table(["name", "text", "n"], rows, ["left", "left", "right"], 28), wide);
  assert.deepEqual(table(["name", "text", "n"], rows, ["left", "left", "right"], 20), [
    "name  text         n",
    "────  ──────────  ──",
    "a     one two     12",
    "      three four",
    "木木  five         3",
  ]);
  for (let columns = 20; columns < 40; columns++) {
    const lines = table(["x", "y"], [["word ".repeat(9).trim(), "unbreakable".repeat(3)]], [], columns);
    assert.ok(lines.every((line) => line.length <= columns), lines.join("\n"));
  }
});
