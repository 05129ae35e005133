import assert from "node:assert/strict";
import { test } from "node:test";
import { programIn } from "../../../../bench/grading/programs/program_in.ts";

const prompt = 'def double(x):\n    """Twice."""\n';
const found = (text: string) => programIn(text, { prompt, entry: "double" });

test("The program of an answer is its longest fenced block that defines the function, or the answer where it does", () => {
  const program = "def double(x):\n    return 2 * x";
  assert.equal(
    found(`Here:\n\`\`\`python\n${program}\n\`\`\`\nIt is used so:\n\`\`\`\ndouble(3)\n\`\`\``),
    program,
  );
  assert.equal(found(`\`\`\`py\n${program}`), program, "an answer that was cut off");
  assert.equal(found(`<think>\n\`\`\`\ndef double(x): pass\n\`\`\`</think>${program}`), program);
  assert.equal(found("    return 2 * x"), `${prompt}    return 2 * x`);
});

test("An answer without the function has no program", () => {
  for (
    const text of [
      "",
      "I would double it.",
      "```python\ndef triple(x): pass\n```",
      "<think>def double(x): pass",
    ]
  ) {
    assert.equal(found(text), undefined);
  }
});
