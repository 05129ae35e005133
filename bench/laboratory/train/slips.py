"""Wrong solutions, made of right ones by the slips that the trained models make, and carried on to the end.

A slip changes one sum's result (mostly its tens), turns plus into minus, compares the wrong way round, says yes for
no, or leaves a step out. What follows is calculated on with the wrong number, as the models do. They are many and cheap
where sampled candidates are few; aggregators learn from both.
"""
import re

SUM = re.compile(r"(\d+)([*+/-])(\d+)=(\d+)")
COMPARED = re.compile(r"Is (\d+) (below|above) (\d+)\? (?:\d is \d, )*\d is (?:below|above) \d\. \d+ is (below|above) \d+\.")
TURNED = {"+": "-", "-": "+"}
OTHER = {"yes": "no", "no": "yes", "below": "above", "above": "below"}


def slipped(solution, chance):
    """The solution with one slip, rarely two; it may end in the right answer all the same."""
    return with_slip(with_slip(solution, chance), chance) if chance.random() < 0.15 else with_slip(solution, chance)


def with_slip(solution, chance):
    sums = len(SUM.findall(solution))
    kinds = ["sum"] * 6 * (sums > 0) + ["turn"] * 2 * (sums > 0) + ["leave"] * (sums > 1)
    if COMPARED.search(solution):
        kinds += ["compare"] * 4 + ["answer"] * 4
    kind = chance.choice(kinds or ["answer"])
    if kind == "answer":
        return re.sub(r"The answer is (yes|no)\.", lambda found: f"The answer is {OTHER[found[1]]}.", solution)
    if kind == "compare":
        turned = COMPARED.sub(lambda found: compared(int(found[1]), found, True), solution)
        return with_answer(turned, chance.random() < 0.7)
    if kind == "leave":
        steps = solution.split(". ")
        del steps[chance.randrange(1, max(2, len(steps) - 1))]
        solution = ". ".join(steps)
        return carried(solution, -1, "", chance)
    return carried(solution, chance.randrange(sums), kind, chance)


def carried(solution, slip, kind, chance):
    """The solution calculated again, with a slip in sum number `slip`; what a later sum reads has its new value."""
    out, at, new, number = [], 0, {}, 0
    known = None
    for found in SUM.finditer(solution):
        out.append(solution[at:found.start()])
        at = found.end()
        a, sign, b, old = found.groups()
        a, b = new.get(a, a), new.get(b, b)
        if kind == "turn" and number == slip:
            sign = TURNED.get(sign, sign)
        value = result(int(a), sign, int(b)) if (a, b) != found.group(1, 3) or number == slip and kind == "turn" else int(old)
        if kind == "sum" and number == slip:
            value = wrong(value, chance)
        new[old] = str(value)
        out.append(f"{a}{sign}{b}={value}")
        known = str(value)
        number += 1
    rest = solution[at:]
    if known is not None:
        rest = re.sub(r"The answer is \d+\.", f"The answer is {known}.", rest)
        before = COMPARED.search(rest)
        rest = COMPARED.sub(lambda found: compared(int(known), found), rest)
        if before is not None and COMPARED.search(rest)[4] != before[4]:
            rest = with_answer(rest, True)
    return "".join(out) + rest


def compared(value, found, turn=False):
    """The comparison with this value, digit by digit as yes_or_no.ts writes it; turned the wrong way round in its end."""
    limit = int(found[3])
    digits = max(len(str(value)), len(str(limit)))
    own, other = str(value).zfill(digits), str(limit).zfill(digits)
    differs = next((at for at in range(digits) if own[at] != other[at]), digits - 1)
    relation = "below" if value < limit else "above"
    relation = OTHER[relation] if turn else relation
    equal = "".join(f"{digit} is {digit}, " for digit in own[:differs])
    return (f"Is {value} {found[2]} {limit}? {equal}{own[differs]} is {relation} {other[differs]}. "
            f"{value} is {relation} {limit}.")


def with_answer(text, turn):
    return re.sub(r"answer is (yes|no)\.", lambda found: f"answer is {OTHER[found[1]] if turn else found[1]}.", text)


def result(a, sign, b):
    return {"+": a + b, "-": abs(a - b), "*": a * b, "/": a // max(1, b)}[sign]


def wrong(value, chance):
    """A number that a small model writes for this one: another tens digit mostly, another last one, or a digit less."""
    step = chance.choice([10] * 5 + [1] * 3 + [2, 3, 20, 100])
    other = value + step * chance.choice([-1, 1])
    if chance.random() < 0.08 and value > 9:
        other = int(str(value)[:-1])
    return other if other >= 0 else value + step
